"""What every test of the repository shares: settings for tests, and which tests can run here."""

from __future__ import annotations

import gc
import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import override_settings

from predictor_site.celery import app as celery_app
from predictor_site.tests.promises import report_lines
from predictor_site.tests.reach import may_reach_servers, noted_tasks

CHROMIUM_NAMES = ("chromium", "chromium-browser")
# After these runs the summary says which tests stand for which promise.
REPORTED_RUNS = ("chaos", "e2e", "chaos or e2e", "e2e or chaos")
SSHD_PATHS = ("/usr/sbin/sshd", "/usr/local/sbin/sshd")


def _torch_is_missing() -> str | None:
    if all(importlib.util.find_spec(name) for name in ("torch", "torchvision")):
        return None
    return "torch and torchvision are not installed (requirements-benchmark.txt)"


def _postgres_is_missing() -> str | None:
    if settings.DATABASES["default"]["ENGINE"].endswith("postgresql"):
        return None
    return "DATABASE_URL names no PostgreSQL"


def _redis_is_missing() -> str | None:
    if settings.CELERY_BROKER_URL.startswith(("redis://", "rediss://")):
        return None
    return "CELERY_BROKER_URL names no Redis"


def _sshd_is_missing() -> str | None:
    if any(Path(path).exists() for path in SSHD_PATHS):
        return None
    return "no sshd program (Debian's openssh-server)"


def _chaos_programs_are_missing() -> str | None:
    from benchmarking.tests.chaos.servers import missing_programs

    missing = missing_programs()
    return f"no {' and no '.join(missing)} to kill" if missing else None


def _browser_is_missing() -> str | None:
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed (requirements-dev.txt)"
    if any(shutil.which(name) for name in CHROMIUM_NAMES):
        return None
    return "no chromium program (Debian's chromium)"


NEEDS: dict[str, Callable[[], str | None]] = {
    "torch": _torch_is_missing,
    "postgres": _postgres_is_missing,
    "redis": _redis_is_missing,
    "sshd": _sshd_is_missing,
    "browser": _browser_is_missing,
    "chaos": _chaos_programs_are_missing,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--fail-on-skip``, with which a run that skipped a test is no success."""
    parser.addoption(
        "--fail-on-skip",
        action="store_true",
        help="fail where a test was skipped: everything it needs should be installed",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what may reach a server, and skip what needs something that this machine lacks."""
    reasons = {marker: reason for marker, missing in NEEDS.items() if (reason := missing())}
    for item in items:
        if may_reach_servers(item):
            item.add_marker("servers")
        for marker in NEEDS:
            if item.get_closest_marker(marker) and marker in reasons:
                item.add_marker(pytest.mark.skip(reason=reasons[marker]))


def pytest_collection_finish() -> None:
    """Let no collection walk over what all tests share: it is a gigabyte once torch is loaded."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn success into failure where tests were skipped under ``--fail-on-skip``."""
    if exitstatus != pytest.ExitCode.OK or not session.config.getoption("--fail-on-skip"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say why a run without a failed test fails; after whole jobs, which promises have tests."""
    skipped = len(terminalreporter.stats.get("skipped", []))
    if skipped and config.getoption("--fail-on-skip"):
        terminalreporter.write_line(f"--fail-on-skip: {skipped} skipped tests count as failed")
    if config.getoption("markexpr") in REPORTED_RUNS:
        terminalreporter.section("promises and their tests")
        for line in report_lines():
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True, scope="session")
def settings_for_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Plain static files (nothing was collected), quick passwords, a working folder of its own.

    Messages stay in memory where no Redis is named: the worker of an installation in this folder
    would otherwise run tasks on rows that only a test knew.
    """
    folder: Path = tmp_path_factory.mktemp("var")
    (folder / "static").mkdir()
    if settings.CELERY_BROKER_URL.startswith("filesystem://"):
        celery_app.conf.update(broker_url="memory://", broker_transport_options={})
    with override_settings(
        VAR_DIR=folder,
        STATIC_ROOT=folder / "static",
        STORAGES={
            "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
            "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
        },
        CACHES=settings.CACHES
        | {
            # Never Redis, which tests would clear of other people's messages too.
            "throttles": {
                "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
                "LOCATION": str(folder / "throttles"),
            }
        },
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    ):
        yield


@pytest.fixture(autouse=True)
def only_tests_of_servers_send_tasks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that sends a task, and would not be run where the broker is Redis."""
    with noted_tasks() as sent:
        yield
    if sent and request.node.get_closest_marker("servers") is None:
        pytest.fail(f"sent {', '.join(sent)}; see predictor_site/tests/reach.py")
