#!/usr/bin/env python
"""Entry point of every command: ``python manage.py <command> --help``."""

import os
import sys

# As a shell reports a program that Ctrl-C ended.
INTERRUPTED_EXIT_CODE = 130


def main() -> None:
    """Run the command named on the command line; what stops it is said in one line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "predictor_site.settings")
    try:
        _run(sys.argv)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED_EXIT_CODE)


def _run(arguments: list[str]) -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.core.management.base import CommandParser
    from django.db import Error

    CommandParser.print_usage = _print_no_usage  # type: ignore[method-assign, assignment]
    try:
        execute_from_command_line(arguments)
    except ImproperlyConfigured as error:
        print(f"Settings: {error}", file=sys.stderr)
        sys.exit(2)
    except Error as error:
        if "--traceback" in arguments:
            raise
        reason = " ".join(str(error).split())
        print(
            f"The database does not do what is asked ({reason}): run script/setup, or see "
            "DATABASE_URL; --traceback tells more.",
            file=sys.stderr,
        )
        sys.exit(2)


def _print_no_usage(*_: object) -> None:
    """What is wrong with a command line is said in one line; --help shows how it goes."""


if __name__ == "__main__":
    main()
