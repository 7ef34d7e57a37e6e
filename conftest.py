"""What every test of the repository shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings


@pytest.fixture(autouse=True, scope="session")
def settings_for_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Plain static files (nothing was collected), quick passwords, a folder of its own."""
    folder: Path = tmp_path_factory.mktemp("var")
    with override_settings(
        VAR_DIR=folder,
        STATIC_ROOT=folder / "static",
        STORAGES={
            "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
            "staticfiles": {
                "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
            },
        },
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    ):
        yield
