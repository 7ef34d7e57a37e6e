"""What Dockerfile and compose.yaml name exists: no container engine is needed to check that."""

from __future__ import annotations

import re
import shlex
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from django.conf import settings
from django.urls import resolve

from predictor_site.environment import Environment
from predictor_site.tests.test_scripts import run_script

DOCKERFILE = (settings.BASE_DIR / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(
    (settings.BASE_DIR / "compose.yaml").read_text(encoding="utf-8")
)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("web", "worker", "beat")


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name}\s+(.+)$", DOCKERFILE, flags=re.MULTILINE)


def substitute(value: str) -> str:
    """Put example values where compose reads variables: ``${NAME:?why}``, ``${NAME:-default}``."""
    value = re.sub(r"\$\{\w+:\?[^}]*\}", "example", value)
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def settings_variables() -> set[str]:
    """Every variable that settings.py reads."""
    source = (settings.BASE_DIR / "predictor_site" / "settings.py").read_text(encoding="utf-8")
    return set(re.findall(r'environment\.\w+\(\s*(?:environment,\s*)?"(\w+)"', source))


def test_compose_runs_web_worker_beat_database_and_broker() -> None:
    assert set(SERVICES) == {"web", "worker", "beat", "database", "broker"}
    assert {SERVICES["database"]["image"], SERVICES["broker"]["image"]} == {
        "postgres:17",
        "redis:7",
    }


def test_every_copied_path_exists() -> None:
    copies = [shlex.split(line) for line in instructions("COPY")]
    sources = [word for words in copies for word in words[:-1] if not word.startswith("--")]
    assert sources[-1] == "."
    missing = [source for source in sources if not (settings.BASE_DIR / source).exists()]
    assert missing == []


@pytest.mark.parametrize("command", instructions("RUN")[1:], ids=lambda command: command[:30])
def test_every_step_is_a_script_with_options_that_it_has(command: str) -> None:
    words = shlex.split(re.sub(r"\$\{\w+:\+([^}]*)\}", r"\1", command))
    assert words[0].startswith("script/")
    usage = run_script(words[0].removeprefix("script/"), "--help").stdout
    assert [word for word in words[1:] if word not in usage] == []


def commands() -> dict[str, list[str]]:
    (line,) = instructions("CMD")
    image_command: list[str] = yaml.safe_load(line)
    return {"image": image_command} | {name: SERVICES[name]["command"] for name in OURS}


@pytest.mark.parametrize(("name", "command"), commands().items(), ids=commands())
def test_every_command_is_one_that_the_server_takes(name: str, command: list[str]) -> None:
    assert command[0] == "script/server"
    usage = run_script("server", "--help").stdout
    options = [word for word in command if word.startswith("--")]
    assert [word for word in options if word not in usage] == []
    if name in OURS:
        assert option(command, "--only") == name


def test_ports_agree() -> None:
    (exposed,) = instructions("EXPOSE")
    web = SERVICES["web"]
    (published,) = web["ports"]
    address, outer, inner = published.rsplit(":", 2)
    assert address == "127.0.0.1"
    assert {outer, inner} == {exposed}
    assert option(web["command"], "--port") == exposed
    assert option(commands()["image"], "--port") == exposed
    assert f"localhost:{exposed}/" in web["healthcheck"]["test"][-1]


def test_the_health_check_asks_a_page_that_exists() -> None:
    (address,) = re.findall(r'"(http://[^"]+)"', SERVICES["web"]["healthcheck"]["test"][-1])
    assert resolve(urlsplit(address).path).url_name == "readyz"


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_one_that_the_settings_read(name: str) -> None:
    assert set(SERVICES[name]["environment"]) <= settings_variables()
    (line,) = instructions("ENV")
    assert {part.split("=")[0] for part in line.split()} <= settings_variables()


@pytest.mark.parametrize("name", OURS)
def test_the_settings_accept_the_values(name: str) -> None:
    values = {key: substitute(value) for key, value in SERVICES[name]["environment"].items()}
    environment = Environment(values)
    database = environment.database("DATABASE_URL", default="")
    broker = environment.broker("CELERY_BROKER_URL", default="")
    expected = SERVICES["database"]["environment"]
    assert (database["NAME"], database["USER"]) == (
        expected["POSTGRES_DB"],
        expected["POSTGRES_USER"],
    )
    assert database["PASSWORD"] == substitute(expected["POSTGRES_PASSWORD"])
    assert {database["HOST"], urlsplit(broker).hostname} == {"database", "broker"}
    assert environment.hosts("ALLOWED_HOSTS", default=[]) == ["localhost", "127.0.0.1"]
    assert environment.boolean("HTTPS", default=True) is False


def test_every_volume_is_declared_and_the_image_keeps_its_data_there() -> None:
    named = {
        volume.split(":")[0]: volume.split(":")[1]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
    }
    assert set(named) == set(COMPOSE["volumes"])
    (variables,) = instructions("ENV")
    assert f"EPOCHCAST_VAR_DIR={named['data']}" in variables.split()
    assert instructions("VOLUME") == [named["data"]]


def test_dependencies_are_services() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
