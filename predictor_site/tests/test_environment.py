"""Settings that are wrong are refused in one line that says what is allowed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from predictor_site.environment import Environment

Reader = Callable[[Environment], Any]


def boolean(environment: Environment) -> bool:
    return environment.boolean("DEBUG", default=False)


def integer(environment: Environment) -> int:
    return environment.integer("AGE", default=60, minimum=0, maximum=100)


def choice(environment: Environment) -> str:
    return environment.choice("LOG_LEVEL", default="INFO", allowed=("DEBUG", "INFO"))


def hosts(environment: Environment) -> list[str]:
    return environment.hosts("ALLOWED_HOSTS", default=["localhost"])


def origins(environment: Environment) -> list[str]:
    return environment.origins("CSRF_TRUSTED_ORIGINS")


def usd(environment: Environment) -> Decimal:
    return environment.usd("PRICE", default="10", maximum=1000)


def words(environment: Environment) -> list[str]:
    return environment.words("MACHINES")


def program(environment: Environment) -> str:
    return environment.program("PYTHON")


def encryption_keys(environment: Environment) -> list[str]:
    return environment.encryption_keys("JOB_SECRET_KEYS")


def folder(environment: Environment) -> Path:
    return environment.folder("VAR", default=Path("/dev/null"))


def database(environment: Environment) -> dict[str, Any]:
    return environment.database("DATABASE_URL", default="sqlite:////tmp/default.sqlite3")


def broker(environment: Environment) -> str:
    return environment.broker("CELERY_BROKER_URL", default="filesystem://")


@pytest.mark.parametrize(
    ("name", "value", "reader", "message"),
    [
        (
            "DEBUG",
            "ture",
            boolean,
            "DEBUG must be one of 1, true, yes, on, 0, false, no, off; it is 'ture'",
        ),
        (
            "DEBUG",
            "2",
            boolean,
            "DEBUG must be one of 1, true, yes, on, 0, false, no, off; it is '2'",
        ),
        ("AGE", "ten", integer, "AGE must be a whole number from 0 to 100; it is 'ten'"),
        ("AGE", "1.5", integer, "AGE must be a whole number from 0 to 100; it is '1.5'"),
        ("AGE", "-1", integer, "AGE must be a whole number from 0 to 100; it is '-1'"),
        ("AGE", "101", integer, "AGE must be a whole number from 0 to 100; it is '101'"),
        ("LOG_LEVEL", "LOUD", choice, "LOG_LEVEL must be one of DEBUG, INFO; it is 'LOUD'"),
        (
            "ALLOWED_HOSTS",
            "a.example,https://b.example",
            hosts,
            "ALLOWED_HOSTS must be host names separated by commas, without scheme or port; "
            "'https://b.example' is none",
        ),
        (
            "ALLOWED_HOSTS",
            "a.example,,b.example",
            hosts,
            "ALLOWED_HOSTS must be host names separated by commas, without scheme or port; "
            "'' is none",
        ),
        (
            "CSRF_TRUSTED_ORIGINS",
            "epochcast.example",
            origins,
            "CSRF_TRUSTED_ORIGINS must be origins such as https://epochcast.example, separated "
            "by commas; 'epochcast.example' is none",
        ),
        (
            "JOB_SECRET_KEYS",
            f"{'a' * 43}=,{'b' * 40}",
            encryption_keys,
            "JOB_SECRET_KEYS must be keys of 32 bytes in URL-safe base64, separated by commas; "
            "key 2 is none",
        ),
        ("VAR", "var", folder, "VAR must be an absolute path; it is 'var'"),
        ("VAR", "/dev/null", folder, "VAR must be a folder; '/dev/null' is a file"),
        (
            "VAR",
            "/dev/null/var",
            folder,
            "VAR: cannot make the folder '/dev/null/var': Not a directory",
        ),
        (
            "DATABASE_URL",
            "mysql://root@localhost/epochcast",
            database,
            "DATABASE_URL must look like sqlite:////absolute/file or "
            "postgres://user:password@host:5432/database; its scheme is 'mysql'",
        ),
        (
            "DATABASE_URL",
            "epochcast",
            database,
            "DATABASE_URL must look like sqlite:////absolute/file or "
            "postgres://user:password@host:5432/database; its scheme is 'epochcast'",
        ),
        (
            "DATABASE_URL",
            "sqlite:///db.sqlite3",
            database,
            "DATABASE_URL must look like sqlite:////absolute/file or "
            "postgres://user:password@host:5432/database; its file is not absolute",
        ),
        (
            "DATABASE_URL",
            "sqlite://db.sqlite3",
            database,
            "DATABASE_URL must look like sqlite:////absolute/file or "
            "postgres://user:password@host:5432/database; its file is not absolute",
        ),
        (
            "DATABASE_URL",
            "sqlite:////nowhere/at/all/db.sqlite3",
            database,
            "DATABASE_URL: there is no folder '/nowhere/at/all'",
        ),
        (
            "DATABASE_URL",
            "postgres://user@localhost:5432",
            database,
            "DATABASE_URL must look like sqlite:////absolute/file or "
            "postgres://user:password@host:5432/database; it names no database",
        ),
        (
            "DATABASE_URL",
            "postgres://user@localhost:port/epochcast",
            database,
            "DATABASE_URL must look like sqlite:////absolute/file or "
            "postgres://user:password@host:5432/database; its port is wrong",
        ),
        (
            "DATABASE_URL",
            "postgres://user@localhost:99999/epochcast",
            database,
            "DATABASE_URL must look like sqlite:////absolute/file or "
            "postgres://user:password@host:5432/database; its port is wrong",
        ),
        (
            "PRICE",
            "-1",
            usd,
            "PRICE must be US dollars from 0 to 1000, such as 25 or 7.50; it is '-1'",
        ),
        (
            "PRICE",
            "1000.01",
            usd,
            "PRICE must be US dollars from 0 to 1000, such as 25 or 7.50; it is '1000.01'",
        ),
        (
            "PRICE",
            "$5",
            usd,
            "PRICE must be US dollars from 0 to 1000, such as 25 or 7.50; it is '$5'",
        ),
        (
            "PRICE",
            "NaN",
            usd,
            "PRICE must be US dollars from 0 to 1000, such as 25 or 7.50; it is 'NaN'",
        ),
        (
            "PRICE",
            "1e3",
            usd,
            "PRICE must be US dollars from 0 to 1000, such as 25 or 7.50; it is '1e3'",
        ),
        (
            "MACHINES",
            "aws-p3.2xlarge, a b",
            words,
            "MACHINES must be names separated by commas; 'a b' is none",
        ),
        *(
            (
                "PYTHON",
                value,
                program,
                "PYTHON must be a program of this computer such as /opt/pytorch/bin/python; "
                f"{value!r} {reason}",
            )
            for value, reason in (
                ("/nowhere/python", "does not exist"),
                ("python-of-nobody", "does not exist"),
                ("python3 -O", "does not exist"),
                ("/etc/passwd", "is not executable"),
                ("/usr/bin", "is a folder"),
                ("bin/python", "is not absolute"),
                ("./python", "is not absolute"),
            )
        ),
        (
            "CELERY_BROKER_URL",
            "amqp://localhost",
            broker,
            "CELERY_BROKER_URL must be filesystem:// or redis://host:6379/0; its scheme is 'amqp'",
        ),
        (
            "CELERY_BROKER_URL",
            "filesystem:///tmp/messages",
            broker,
            "CELERY_BROKER_URL must be filesystem:// or redis://host:6379/0; filesystem:// takes "
            "nothing behind it (its folder is EPOCHCAST_VAR_DIR/celery)",
        ),
        (
            "CELERY_BROKER_URL",
            "redis://localhost:none/0",
            broker,
            "CELERY_BROKER_URL must be filesystem:// or redis://host:6379/0; its port is wrong",
        ),
        (
            "CELERY_BROKER_URL",
            "redis:///0",
            broker,
            "CELERY_BROKER_URL must be filesystem:// or redis://host:6379/0; it names no host",
        ),
        (
            "CELERY_BROKER_URL",
            "redis://localhost/first",
            broker,
            "CELERY_BROKER_URL must be filesystem:// or redis://host:6379/0; its database is not "
            "a number",
        ),
    ],
)
def test_a_wrong_value_is_refused(name: str, value: str, reader: Reader, message: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        reader(Environment({name: value}))
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("name", "value", "reader", "expected"),
    [
        ("DEBUG", "Yes", boolean, True),
        ("DEBUG", "off", boolean, False),
        ("DEBUG", " ", boolean, False),
        ("AGE", "0", integer, 0),
        ("AGE", "", integer, 60),
        ("LOG_LEVEL", "DEBUG", choice, "DEBUG"),
        ("ALLOWED_HOSTS", "[::1], .a.example", hosts, ["[::1]", ".a.example"]),
        ("CSRF_TRUSTED_ORIGINS", "", origins, []),
        ("CSRF_TRUSTED_ORIGINS", "http://a:8000", origins, ["http://a:8000"]),
        ("PRICE", "", usd, Decimal(10)),
        ("PRICE", "0", usd, Decimal(0)),
        ("PRICE", "7.50", usd, Decimal("7.50")),
        ("MACHINES", "", words, []),
        ("MACHINES", "b, a,b,", words, ["b", "a"]),
        ("PYTHON", "", program, ""),
        ("PYTHON", sys.executable, program, sys.executable),
        ("PYTHON", "sh", program, shutil.which("sh")),
        ("CELERY_BROKER_URL", "", broker, "filesystem://"),
        (
            "CELERY_BROKER_URL",
            "redis://:secret@cache:6379/2",
            broker,
            "redis://:secret@cache:6379/2",
        ),
    ],
)
def test_a_right_value_is_read(name: str, value: str, reader: Reader, expected: Any) -> None:
    assert reader(Environment({name: value})) == expected


def test_a_database_address_becomes_its_parts() -> None:
    config = database(Environment({"DATABASE_URL": "postgres://ann:p%40ss@db:5433/epochcast"}))
    assert config == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "epochcast",
        "USER": "ann",
        "PASSWORD": "p@ss",
        "HOST": "db",
        "PORT": 5433,
    }


def test_an_sqlite_file_is_found_by_its_absolute_path(tmp_path: Path) -> None:
    path = tmp_path / "epochcast.sqlite3"
    config = database(Environment({"DATABASE_URL": f"sqlite:///{path}"}))
    assert (config["ENGINE"], config["NAME"]) == ("django.db.backends.sqlite3", str(path))


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "var"
    assert folder(Environment({"VAR": str(path)})) == path
    assert path.is_dir()


def test_a_refusal_does_not_show_the_password() -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        database(Environment({"DATABASE_URL": "postgres://ann:hunter2@db:port/epochcast"}))
    assert "hunter2" not in str(refusal.value)


class TestSecret:
    def test_it_comes_from_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("from-file\n", encoding="utf-8")
        assert Environment({"SECRET_KEY_FILE": str(path)}).secret("SECRET_KEY") == "from-file"

    def test_it_comes_from_the_variable(self) -> None:
        assert Environment({"SECRET_KEY": "direct"}).secret("SECRET_KEY") == "direct"

    def test_it_may_be_missing(self) -> None:
        assert Environment({}).secret("SECRET_KEY") is None

    def test_both_at_once_are_refused(self) -> None:
        variables = {"SECRET_KEY": "direct", "SECRET_KEY_FILE": "/key"}
        with pytest.raises(ImproperlyConfigured) as refusal:
            Environment(variables).secret("SECRET_KEY")
        assert str(refusal.value) == "SECRET_KEY and SECRET_KEY_FILE are both set: set one of them"

    def test_a_missing_file_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "none"
        with pytest.raises(ImproperlyConfigured) as refusal:
            Environment({"SECRET_KEY_FILE": str(path)}).secret("SECRET_KEY")
        assert str(refusal.value) == (
            f"SECRET_KEY_FILE: cannot read {str(path)!r}: No such file or directory"
        )

    @pytest.mark.parametrize(
        ("content", "ending"), [(b"\n", "is empty"), (b"\xff\xfe\x00", "it is not text")]
    )
    def test_an_unusable_file_is_refused(self, tmp_path: Path, content: bytes, ending: str) -> None:
        path = tmp_path / "key"
        path.write_bytes(content)
        with pytest.raises(ImproperlyConfigured) as refusal:
            Environment({"SECRET_KEY_FILE": str(path)}).secret("SECRET_KEY")
        assert str(refusal.value).endswith(ending)

    def test_a_database_address_may_lie_in_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "url"
        path.write_text("postgres://ann@db:5432/epochcast", encoding="utf-8")
        assert database(Environment({"DATABASE_URL_FILE": str(path)}))["HOST"] == "db"


def test_encryption_keys_are_separated_by_commas_or_lines_in_a_file(tmp_path: Path) -> None:
    first, second = f"{'a' * 43}=", f"{'-_' * 21}Z="
    path = tmp_path / "keys"
    path.write_text(f"{first}\n{second}\n")

    assert Environment({"KEYS": f"{first}, {second}"}).encryption_keys("KEYS") == [first, second]
    assert Environment({"KEYS_FILE": str(path)}).encryption_keys("KEYS") == [first, second]
    assert Environment({}).encryption_keys("KEYS") == []
