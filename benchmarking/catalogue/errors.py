"""What goes wrong with a catalogue file."""


class CatalogueError(ValueError):
    """A catalogue file cannot be used; the message is one line that says where and why."""
