"""What a mistyped command line gets: one line on standard error, and exit code 2."""

from __future__ import annotations

import pytest
from django.core.management import get_commands

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


def test_help_still_shows_how_a_command_is_called(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["manage.py", "predict", "--help"])
    with pytest.raises(SystemExit) as stopped:
        manage.main()
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("usage: manage.py predict ")
