"""The settings module as a command sees it: in a process of its own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from django.conf import settings

import manage
from predictor_site.server import ensure_secret_key


def run_python(
    arguments: list[str], folder: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=settings.BASE_DIR,
        env={"PATH": os.environ["PATH"], "EPOCHCAST_VAR_DIR": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"DEBUG": "perhaps"},
            "Settings: DEBUG must be one of 1, true, yes, on, 0, false, no, off; it is 'perhaps'\n",
        ),
        (
            {"DATABASE_URL": "oracle://db/epochcast"},
            "Settings: DATABASE_URL must look like sqlite:////absolute/file or "
            "postgres://user:password@host:5432/database; its scheme is 'oracle'\n",
        ),
        (
            {"CELERY_BROKER_URL": "sqs://"},
            "Settings: CELERY_BROKER_URL must be filesystem:// or redis://host:6379/0; "
            "its scheme is 'sqs'\n",
        ),
        (
            {"BENCHMARK_PYTHON": "/nowhere/python"},
            "Settings: BENCHMARK_PYTHON must be a program of this computer such as "
            "/opt/pytorch/bin/python; '/nowhere/python' does not exist\n",
        ),
        (
            {"EC2_REGIONS": "us-gov-east-9"},
            "Settings: EC2_REGIONS must be AWS regions such as us-east-1,eu-west-1; "
            "'us-gov-east-9' is none (did you mean us-gov-east-1 or us-gov-west-1?)\n",
        ),
        (
            {"LOG_FORMAT": "xml"},
            "Settings: LOG_FORMAT must be one of text, json; it is 'xml'\n",
        ),
    ],
)
def test_a_command_refuses_a_wrong_setting_in_one_line(
    tmp_path: Path, variables: dict[str, str], message: str
) -> None:
    result = run_python(["manage.py", "check"], tmp_path, variables)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", message)


def _file_for_celery(folder: Path) -> None:
    (folder / "celery").write_text("", encoding="utf-8")


def _folder_for_the_key(folder: Path) -> None:
    (folder / "secret_key").mkdir()


def _bytes_for_the_key(folder: Path) -> None:
    (folder / "secret_key").write_bytes(b"\xff\xfe")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_file_for_celery, "cannot make the folder '{}/celery/messages': Not a directory"),
        (_folder_for_the_key, "cannot read '{}/secret_key': Is a directory"),
        (_bytes_for_the_key, "cannot read '{}/secret_key': it is not text"),
    ],
)
def test_a_command_says_in_one_line_what_is_wrong_with_the_folder_of_the_installation(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(tmp_path)
    result = run_python(["manage.py", "check"], tmp_path, {})
    expected = f"Settings: EPOCHCAST_VAR_DIR: {message.format(tmp_path)}\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", expected)


@pytest.mark.parametrize(
    ("command", "url", "reason"),
    [
        ("train", "sqlite:///{folder}/empty.sqlite3", "no such table: benchmarking_"),
        ("check_catalogue", "sqlite:///{folder}/text.sqlite3", "file is not a database"),
        ("evaluate", "sqlite:///{folder}", "unable to open database file"),
        ("load_catalogue", "postgres://u:hidden@127.0.0.1:1/none", "connection "),
    ],
)
def test_a_command_says_in_one_line_that_the_database_is_not_as_it_should_be(
    tmp_path: Path, command: str, url: str, reason: str
) -> None:
    (tmp_path / "text.sqlite3").write_text("This is a letter. " * 100)
    result = run_python(
        ["manage.py", command], tmp_path, {"DATABASE_URL": url.format(folder=tmp_path)}
    )
    assert (result.returncode, result.stdout) == (2, "")
    start = f"The database does not do what is asked ({reason}"
    assert result.stderr.startswith(start) and result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.endswith(
        "run script/setup, or see DATABASE_URL; --traceback tells more.\n"
    )
    assert "hidden" not in result.stderr


def test_setup_says_in_one_line_that_the_database_is_none(tmp_path: Path) -> None:
    (tmp_path / "db.sqlite3").write_text("This is a letter. " * 100)
    result = run_python(["-m", "predictor_site.prepare"], tmp_path, {})
    assert (result.returncode, result.stderr) == (1, "script/setup: file is not a database\n")


def test_an_interrupt_while_a_command_starts_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(manage, "_run", interrupt)
    with pytest.raises(SystemExit) as ended:
        manage.main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "Interrupted.\n")


def test_a_command_runs_with_no_variable_set(tmp_path: Path) -> None:
    result = run_python(["manage.py", "check"], tmp_path, {})
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "System check identified no issues (0 silenced).\n"


def test_defaults_are_safe() -> None:
    script = (
        "from predictor_site import settings as s;"
        "print(s.DEBUG, s.ALLOWED_HOSTS, s.SESSION_COOKIE_HTTPONLY, s.X_FRAME_OPTIONS)"
    )
    result = run_python(["-c", script], settings.VAR_DIR, {})
    assert result.stdout == "False ['localhost', '127.0.0.1', '[::1]'] True DENY\n"


def test_the_web_process_refuses_to_start_without_a_key_of_its_own(tmp_path: Path) -> None:
    result = run_python(["-c", "import predictor_site.wsgi"], tmp_path, {})
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "django.core.exceptions.ImproperlyConfigured: SECRET_KEY is not set: set it (or "
        "SECRET_KEY_FILE), or start with script/server, which makes one for this installation"
    )


def test_an_installation_has_its_own_secret_key(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        ensure_secret_key(folder)
    keys = [(folder / "secret_key").read_text(encoding="utf-8") for folder in (first, second)]
    assert len(keys[0]) == 50
    assert keys[0] != keys[1]
    assert stat.S_IMODE((first / "secret_key").stat().st_mode) == 0o600

    ensure_secret_key(first)

    assert (first / "secret_key").read_text(encoding="utf-8") == keys[0]
    script = "from predictor_site import settings as s; print(s.SECRET_KEY)"
    assert run_python(["-c", script], first, {}).stdout.strip() == keys[0]


@pytest.mark.django_db
def test_sqlite_waits_for_its_turn_instead_of_failing() -> None:
    options = settings.DATABASES["default"].get("OPTIONS", {})
    if settings.DATABASES["default"]["ENGINE"] != "django.db.backends.sqlite3":
        assert options == {}
        return
    assert options["transaction_mode"] == "IMMEDIATE"
    assert options["timeout"] == 20
    assert "journal_mode=WAL" in options["init_command"]


def test_https_secures_cookies_and_sends_hsts(tmp_path: Path) -> None:
    script = (
        "from predictor_site import settings as s;"
        "print(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_HSTS_SECONDS)"
    )
    assert run_python(["-c", script], tmp_path, {"HTTPS": "yes"}).stdout == "True True 31536000\n"
    assert run_python(["-c", script], tmp_path, {}).stdout == "False False 0\n"


@pytest.mark.parametrize("broker", ["filesystem://", "redis://127.0.0.1:1/0"])
def test_folder_of_beats_schedule_is_there_whatever_the_broker(tmp_path: Path, broker: str) -> None:
    script = (
        "from django.conf import settings; from pathlib import Path; "
        "print(Path(settings.CELERY_BEAT_SCHEDULE_FILENAME).parent.is_dir())"
    )
    result = run_python(
        ["-c", script],
        tmp_path,
        {"DJANGO_SETTINGS_MODULE": "predictor_site.settings", "CELERY_BROKER_URL": broker},
    )
    assert (result.stdout, result.stderr) == ("True\n", "")
