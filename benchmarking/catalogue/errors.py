"""What goes wrong with a catalogue file, in one line."""

from __future__ import annotations

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError


class CatalogueError(ValueError):
    """A catalogue file cannot be used; the message is one line that says where and why."""


def describe_error(error: ValidationError) -> str:
    """A validation error as ``field: message; field: message``."""
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return "; ".join(
        " ".join(messages) if name == NON_FIELD_ERRORS else f"{name}: {' '.join(messages)}"
        for name, messages in error.message_dict.items()
    )
