"""One log line a request, and log lines as JSON for collectors."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse

from predictions.uploads.tokens import hide_tokens

logger = logging.getLogger("predictor_site.requests")

# What every log record has; anything else came in through ``extra``.
STANDARD_ATTRIBUTES = frozenset(
    vars(logging.LogRecord("", 0, "", 0, "", None, None)) | {"message": "", "asctime": ""}
)

# Watchdogs ask every few seconds, and each page asks for a dozen files.
QUIET_PATHS = ("/livez", "/readyz", "/metrics", "/static/")


class JsonFormatter(logging.Formatter):
    """A log record as one JSON object: time, level, logger, message and every ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in STANDARD_ATTRIBUTES:
                fields[name] = value
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class PrivateLinkFilter(logging.Filter):
    """Hide the secret part of private links in every line, whoever wrote it."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if (shown := hide_tokens(message)) != message:
            record.msg, record.args = shown, ()
        path = getattr(record, "path", None)
        if isinstance(path, str):
            record.path = hide_tokens(path)
        return True


class RefusalFilter(logging.Filter):
    """Leave the traceback out of a line about a refused request: the fault is not in our code."""

    def filter(self, record: logging.LogRecord) -> bool:
        # Django writes the status of an answer into what it logs about it.
        status = getattr(record, "status_code", None)
        if isinstance(status, int) and 400 <= status < 500:
            record.exc_info = record.exc_text = None
        return True


class RequestLogMiddleware:
    """Log method, path, status and duration of each request; the query string stays out."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self.get_response(request)
        duration_ms = round((time.perf_counter() - started) * 1000, 1)
        logger.log(
            logging.DEBUG if request.path.startswith(QUIET_PATHS) else logging.INFO,
            "%s %s %s in %s ms",
            request.method,
            request.path,
            response.status_code,
            duration_ms,
            extra={
                "method": request.method,
                "path": request.path,
                "status": response.status_code,
                "duration_ms": duration_ms,
            },
        )
        return response
