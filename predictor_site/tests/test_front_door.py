"""Health pages, headers, static files, request log and the schedule."""

from __future__ import annotations

import json
import logging
import re
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles import finders
from django.db import OperationalError
from django.test import Client

from predictor_site.celery import app as celery_app
from predictor_site.celery import collect_beat_schedule
from predictor_site.request_log import JsonFormatter


class TestHealth:
    def test_livez_touches_no_database(self, client: Client) -> None:
        response = client.get("/livez")
        assert (response.status_code, response.json()) == (200, {"status": "ok"})

    @pytest.mark.django_db
    def test_readyz_names_a_database_that_does_not_answer(self, client: Client) -> None:
        with patch("predictor_site.health.MigrationExecutor", side_effect=OperationalError("x")):
            response = client.get("/readyz")
        assert (response.status_code, response.json()) == (
            503,
            {"status": "unavailable", "reason": "database: OperationalError"},
        )

    def test_posting_is_refused(self, client: Client) -> None:
        refused = client.post("/livez")
        assert (refused.status_code, refused["Allow"]) == (405, "GET, HEAD")


def test_every_page_carries_the_security_headers(client: Client) -> None:
    headers = client.get("/livez").headers
    directives = {
        part.split()[0]: part.split()[1:] for part in headers["Content-Security-Policy"].split(";")
    }
    assert directives == {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:", "blob:"],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


def test_api_documentation_loads_from_this_site_alone(client: Client) -> None:
    page = client.get("/api/docs/").content.decode()
    assert "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js" in page
    assert "https://" not in page
    script = client.get("/api/docs/?script=")
    assert script["Content-Type"] == "application/javascript"
    assert b"/api/schema/" in script.content


class TestStaticFiles:
    @pytest.mark.parametrize(
        "path", ["vendor/plotly-basic.min.js", "django_htmx/htmx-2.min.js", "admin/css/base.css"]
    )
    def test_scripts_come_with_the_installation(self, path: str) -> None:
        found = finders.find(path)
        assert found is not None
        assert found.endswith(path)

    def test_plotly_js_has_the_version_whose_schema_checks_the_figures(self) -> None:
        package = find_spec("plotly")
        assert package is not None and package.origin is not None
        of_schema = Path(package.origin).parent / "package_data" / "plotly.min.js"
        served = settings.BASE_DIR / "static" / "vendor" / "plotly-basic.min.js"
        versions = [
            re.findall(
                r"plotly\.js .*v(\d+\.\d+\.\d+)$", path.read_text("utf-8")[:200], re.MULTILINE
            )
            for path in (served, of_schema)
        ]
        assert len(versions[0]) == 1
        assert versions[0] == versions[1]


class TestCelery:
    def test_messages_are_json_on_three_known_queues(self) -> None:
        assert celery_app.conf.accept_content == ["json"]
        assert set(celery_app.conf.task_queues) == {"predict", "bench", "maintenance"}
        assert celery_app.conf.task_create_missing_queues is False

    def test_a_task_that_dies_is_left_to_the_sweep(self) -> None:
        conf = celery_app.conf
        assert (conf.task_acks_late, conf.task_reject_on_worker_lost) == (True, False)
        assert (conf.task_soft_time_limit, conf.task_time_limit) == (50, 60)
        assert (conf.worker_prefetch_multiplier, conf.task_ignore_result) == (1, True)

    def test_the_schedule_names_tasks_that_exist(self) -> None:
        celery_app.loader.import_default_modules()
        schedule = collect_beat_schedule()
        assert {entry["task"] for entry in schedule.values()} <= set(celery_app.tasks)
        assert celery_app.conf.beat_schedule == schedule

    def test_every_task_goes_to_the_queue_of_its_room(self) -> None:
        celery_app.loader.import_default_modules()
        queues = {
            name: celery_app.amqp.router.route({}, name)["queue"].name
            for name in celery_app.tasks
            if not name.startswith("celery.")
        }
        assert set(queues.values()) <= {"predict", "bench", "maintenance"}
        assert queues["benchmarking.tasks.advance_benchmark_job"] == "bench"
        assert queues["regression.tasks.retrain_machine"] == "maintenance"
        assert queues["predictions.tasks.refresh_curves"] == "predict"

    def test_a_name_declared_twice_is_refused(self) -> None:
        entry = {"sweep": {"task": "benchmarking.tasks.sweep", "schedule": 15.0}}
        with (
            patch.object(apps.get_app_config("benchmarking"), "beat_schedule", entry),
            patch.object(apps.get_app_config("regression"), "beat_schedule", entry),
            pytest.raises(ValueError, match="'sweep' is declared twice, again by regression"),
        ):
            collect_beat_schedule()


class TestRequestLog:
    def test_a_request_is_one_line_without_its_query(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, logger="predictor_site.requests"):
            client.get("/api/schema/?secret=1")
        (record,) = [r for r in caplog.records if r.name == "predictor_site.requests"]
        assert record.getMessage().startswith("GET /api/schema/ 200 in ")
        assert "secret" not in record.getMessage()

    def test_health_checks_are_quiet(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, logger="predictor_site.requests"):
            client.get("/livez")
        assert [r for r in caplog.records if r.name == "predictor_site.requests"] == []

    def test_a_record_becomes_one_json_object(self) -> None:
        record = logging.LogRecord("jobs", logging.WARNING, "", 1, "job %s", ("late",), None)
        record.job = 7
        fields = json.loads(JsonFormatter().format(record))
        assert fields.pop("at").endswith("+00:00")
        assert fields == {
            "level": "WARNING",
            "logger": "jobs",
            "message": "job late",
            "job": 7,
        }
