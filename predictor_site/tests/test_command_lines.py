"""What a mistyped command line gets: one line on standard error, and exit code 2."""

from __future__ import annotations

import pytest
from django.core.management import get_commands, load_command_class

import manage

FLOORS = ("benchmarking", "regression", "predictions")
OUR_COMMANDS = sorted(name for name, app in get_commands().items() if app in FLOORS)


@pytest.mark.parametrize("command", OUR_COMMANDS)
def test_an_unknown_option_is_one_line_without_the_usage(command, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["manage.py", command, "--no-such-option"])
    with pytest.raises(SystemExit) as stopped:
        manage.main()
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith(f"manage.py {command}: error: ")


def _options_with_values():
    """Every option of our commands that takes a value, with its command."""
    return [
        (command, action.option_strings[-1])
        for command in OUR_COMMANDS
        for action in load_command_class(get_commands()[command], command)
        .create_parser("manage.py", command)
        ._actions
        if action.option_strings and action.nargs != 0
    ]


@pytest.mark.parametrize("is_apart", [True, False])
@pytest.mark.parametrize(("command", "option"), _options_with_values())
def test_an_empty_value_is_one_line_whatever_the_option(
    command, option, is_apart, monkeypatch, capsys
):
    given = [option, " "] if is_apart else [f"{option}="]
    monkeypatch.setattr("sys.argv", ["manage.py", command, *given])
    with pytest.raises(SystemExit) as stopped:
        manage.main()
    assert stopped.value.code == 2
    assert capsys.readouterr() == (
        "",
        f"manage.py {command}: error: argument {option}: its value is empty; give one that "
        "--help allows, or leave it out\n",
    )


@pytest.mark.parametrize("command", ["predict", "import_measurements", "load_models"])
def test_an_empty_name_is_one_line(command, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["manage.py", command, "first", ""])
    with pytest.raises(SystemExit) as stopped:
        manage.main()
    assert stopped.value.code == 2
    assert capsys.readouterr() == (
        "",
        f"manage.py {command}: error: an argument: its value is empty; give one that --help "
        "allows, or leave it out\n",
    )


def test_other_peoples_commands_may_take_empty_values(monkeypatch):
    ran: list[list[str]] = []
    monkeypatch.setattr("django.core.management.execute_from_command_line", ran.append)
    arguments = ["manage.py", "createsuperuser", "--email", ""]
    monkeypatch.setattr("sys.argv", arguments)
    manage.main()
    assert ran == [arguments]


def test_help_still_shows_how_a_command_is_called(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["manage.py", "predict", "--help"])
    with pytest.raises(SystemExit) as stopped:
        manage.main()
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("usage: manage.py predict ")
