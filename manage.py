#!/usr/bin/env python
"""Entry point of every command: ``python manage.py <command> --help``."""

import os
import sys
from pathlib import Path

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

    if (line := _refusal_of_empty_value(arguments)) is not None:
        print(line, file=sys.stderr)
        sys.exit(2)
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


def _refusal_of_empty_value(arguments: list[str]) -> str | None:
    """What an empty argument of our commands gets, as from a script's variable that is not set.

    It would be taken for an option that is left out, or for the folder in which one happens to be.
    """
    command = arguments[1] if len(arguments) > 1 else ""
    folders = Path(__file__).parent.glob("*/management/commands")
    if not any((folder / f"{command}.py").is_file() for folder in folders):
        return None
    before = ""
    for argument in arguments[2:]:
        option, equals, value = argument.partition("=")
        if equals and option.startswith("-") and not value.strip():
            before, argument = option, ""
        if not argument.strip():
            name = f"argument {before}" if before.startswith("-") else "an argument"
            return (
                f"manage.py {command}: error: {name}: its value is empty; give one that --help "
                "allows, or leave it out"
            )
        before = argument
    return None


def _print_no_usage(*_: object) -> None:
    """What is wrong with a command line is said in one line; --help shows how it goes."""


if __name__ == "__main__":
    main()
