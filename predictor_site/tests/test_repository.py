"""What a clone carries: nothing of the machine it was written on, and nothing too large."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from predictor_site.tests.test_containers import settings_variables

# Assembled, so that this file does not name what it looks for.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
        ("download", "pytorch", "org"),
        ("proxy", "golang", "org"),
    )
]
MACHINE_PATH = re.compile(
    r"(?<![\w.$}/:-])/(?:"
    + "|".join(("work", "root", "home/[a-z]+", "opt/(?!pytorch/)[a-z]+", "Users"))
    + r")/"
)
MAXIMUM_FIXTURE_BYTES = 15 * 1024 * 1024


def committed_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.fail("this test reads the list of committed files: run it in a clone")
    paths = [settings.BASE_DIR / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_files() -> Iterator[tuple[Path, str]]:
    for path in committed_files():
        try:
            yield path.relative_to(settings.BASE_DIR), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_no_file_names_a_package_registry() -> None:
    found = [
        f"{path}: {host}" for path, text in text_files() for host in REGISTRY_HOSTS if host in text
    ]
    assert found == []


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{path}: {match.group()}"
        for path, text in text_files()
        for match in MACHINE_PATH.finditer(text)
    ]
    assert found == []


def test_requirements_are_pinned_and_carry_no_address() -> None:
    for path in settings.BASE_DIR.glob("requirements*.txt"):
        lines = [
            line.strip()
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.strip() and not line.lstrip().startswith("#")
        ]
        assert [line for line in lines if not re.fullmatch(r"[\w.\-]+==[\w.+]+", line)] == []


def test_fixtures_are_small() -> None:
    sizes = {
        path: path.stat().st_size
        for path in committed_files()
        if path.is_relative_to(settings.BASE_DIR / "fixtures")
    }
    assert sum(sizes.values()) <= MAXIMUM_FIXTURE_BYTES


def test_every_document_named_in_the_readme_exists() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"):
        text = (settings.BASE_DIR / name).read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
        missing = [
            link
            for link in links
            if not link.startswith("http") and not (settings.BASE_DIR / link).exists()
        ]
        assert missing == []


def test_every_setting_is_documented() -> None:
    text = (settings.BASE_DIR / "CONTRIBUTING.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([A-Z_0-9]+)` \|", text, flags=re.MULTILINE))
    assert documented == settings_variables()
