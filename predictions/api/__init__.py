"""Everything that is on screen, as JSON under ``/api/v1/``."""
