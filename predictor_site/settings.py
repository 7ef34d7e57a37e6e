"""Settings of the site, from environment variables whose defaults are safe to start with.

CONTRIBUTING.md lists the variables. A wrong value raises ``ImproperlyConfigured``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF, UNSAFE_INLINE
from django.core.management.utils import get_random_secret_key

from predictor_site import cloud_environment
from predictor_site.environment import Environment

BASE_DIR = Path(__file__).resolve().parent.parent
environment = Environment()

# Everything that an installation writes: database, queue, secret key, runs of the probe.
VAR_DIR = environment.folder("EPOCHCAST_VAR_DIR", default=BASE_DIR / "var")

DEBUG = environment.boolean("DEBUG", default=False)
ALLOWED_HOSTS = environment.hosts("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = environment.origins("CSRF_TRUSTED_ORIGINS")

_secret_key = environment.secret("SECRET_KEY") or environment.kept_text(
    "EPOCHCAST_VAR_DIR", VAR_DIR / "secret_key"
)
# Commands sign nothing that outlives them, so they may run on a key of their own; wsgi.py refuses.
SECRET_KEY_IS_TEMPORARY = not _secret_key
SECRET_KEY = _secret_key or get_random_secret_key()

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "csp",
    "django_filters",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "import_export",
    "rest_framework",
    "rest_framework.authtoken",
    "benchmarking",
    "regression",
    "predictions",
]

MIDDLEWARE = [
    "predictor_site.request_log.RequestLogMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "predictor_site.urls"
WSGI_APPLICATION = "predictor_site.wsgi.application"
ASGI_APPLICATION = "predictor_site.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# The Python with torch that local benchmark jobs start the probe with; else the site's own.
BENCHMARK_PYTHON = environment.program("BENCHMARK_PYTHON")

# What benchmark jobs may do: False stops every new start, and clean-up goes on.
BENCHMARKS_ENABLED = environment.boolean("BENCHMARKS_ENABLED", default=True)
BENCHMARK_USD_PER_JOB = environment.usd("BENCHMARK_USD_PER_JOB", default="10")
BENCHMARK_USD_PER_HOUR = environment.usd("BENCHMARK_USD_PER_HOUR", default="10")
# Nothing that costs money is launched before somebody has said how much a month may cost.
BENCHMARK_USD_PER_MONTH = environment.usd("BENCHMARK_USD_PER_MONTH", default="0")
BENCHMARK_INSTANCES = environment.integer("BENCHMARK_INSTANCES", default=2, minimum=0, maximum=1000)
BENCHMARK_INSTANCES_PER_REGION = environment.integer(
    "BENCHMARK_INSTANCES_PER_REGION", default=2, minimum=0, maximum=1000
)
BENCHMARK_CAPACITY_HOURS = environment.integer(
    "BENCHMARK_CAPACITY_HOURS", default=6, minimum=0, maximum=168
)
# Machines on which what people ask for may be measured without anybody's confirmation.
AUTOMATIC_BENCHMARKS = environment.boolean("AUTOMATIC_BENCHMARKS", default=False)
AUTOMATIC_BENCHMARK_MACHINES = environment.words("AUTOMATIC_BENCHMARK_MACHINES")
AUTOMATIC_BENCHMARK_REQUESTS = environment.integer(
    "AUTOMATIC_BENCHMARK_REQUESTS", default=3, minimum=1, maximum=1_000_000
)
# Whoever shows it may read /metrics, beside staff; without one the installation makes its own.
METRICS_TOKEN = environment.secret("METRICS_TOKEN")

# What keys of benchmark hosts are encrypted with: the first encrypts, all decrypt. Where none is
# given, the first use makes one for this installation.
JOB_SECRET_KEYS = environment.encryption_keys("JOB_SECRET_KEYS")

# Machines that are launched on EC2; docs/operations.md says how to set an account up for it.
EC2_REGIONS = cloud_environment.regions(environment, "EC2_REGIONS")
EC2_IMAGE = cloud_environment.image_ids(environment, "EC2_IMAGE")
# Where no image is named: AWS's own with the NVIDIA driver and PyTorch.
EC2_IMAGE_PARAMETER = cloud_environment.parameter_path(
    environment,
    "EC2_IMAGE_PARAMETER",
    "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.9-ubuntu-24.04"
    "/latest/ami-id",
)
EC2_USER = cloud_environment.user_name(environment, "EC2_USER", "ubuntu")
EC2_PYTHON = cloud_environment.program_path(environment, "EC2_PYTHON", "/opt/pytorch/bin/python")
EC2_SUBNETS = cloud_environment.subnet_ids(environment, "EC2_SUBNETS")
EC2_WORKER_CIDR = cloud_environment.worker_network(environment, "EC2_WORKER_CIDR")
EC2_SSH_PORT = environment.integer("EC2_SSH_PORT", default=22, minimum=1, maximum=65535)
EC2_CONSISTENCY_SECONDS = environment.integer(
    "EC2_CONSISTENCY_SECONDS", default=120, minimum=0, maximum=3600
)
EC2_ENDPOINT_URL = cloud_environment.endpoint(environment, "EC2_ENDPOINT_URL")
# Whose instances ours are: nothing with another name in its tags is ever touched.
DEPLOYMENT = cloud_environment.deployment_name(environment, "DEPLOYMENT")

# Database ---------------------------------------------------------------------------------------

_database = environment.database("DATABASE_URL", default=f"sqlite:///{VAR_DIR / 'db.sqlite3'}")
if _database["ENGINE"] == "django.db.backends.sqlite3":
    _database["OPTIONS"] = {
        # Readers do not wait for the writer, and a writer takes its lock at BEGIN: a transaction
        # that upgraded from reading to writing would fail at once instead of waiting.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
    }
else:
    _database["CONN_HEALTH_CHECKS"] = True
# Pages are kept for as long as one connection sees no change (predictions/data_version.py).
_database["CONN_MAX_AGE"] = environment.integer(
    "DATABASE_CONN_MAX_AGE_SECONDS", default=60, minimum=0, maximum=86_400
)
DATABASES = {"default": _database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Celery -----------------------------------------------------------------------------------------

CELERY_BROKER_URL = environment.broker("CELERY_BROKER_URL", default="filesystem://")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {}
if CELERY_BROKER_URL.startswith("filesystem://"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(VAR_DIR / "celery" / "messages"),
        "data_folder_out": str(VAR_DIR / "celery" / "messages"),
        "control_folder": str(VAR_DIR / "celery" / "control"),
        # Each step of a job is a message: kombu's second between two looks would add up.
        "polling_interval": 0.25,
    }
    for _folder in ("messages", "control"):
        environment.made_folder("EPOCHCAST_VAR_DIR", VAR_DIR / "celery" / _folder)
elif CELERY_BROKER_URL.startswith(("redis://", "rediss://")):
    # Longer than any task's hard limit, so that Redis never hands a running task out again.
    CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600}

QUEUES = ("predict", "bench", "maintenance")
CELERY_TASK_QUEUES = {name: {"exchange": name, "routing_key": name} for name in QUEUES}
CELERY_TASK_DEFAULT_QUEUE = "predict"
# A queue of a mistyped name would be filled and never read.
CELERY_TASK_CREATE_MISSING_QUEUES = False
# Named here and not at the tasks: Celery 6 drops the decorator's queue. Steps of benchmark jobs
# and the refresh of what people look at never wait behind training, which takes a minute.
CELERY_TASK_ROUTES = {
    "benchmarking.tasks.*": {"queue": "bench"},
    "benchmarking.prices.*": {"queue": "maintenance"},
    "regression.tasks.*": {"queue": "maintenance"},
    "predictions.tasks.*": {"queue": "predict"},
}
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
# Our rows say what was done; a task that died with its worker is found again by a sweep, and one
# that kills its worker is not handed to the next.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_SOFT_TIME_LIMIT = 50
CELERY_TASK_TIME_LIMIT = 60
# Remote control needs broadcast queues, which nobody reads here.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
# Celery leaves logging to LOGGING below.
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# Beat does not make the folder itself, whatever the broker.
(VAR_DIR / "celery").mkdir(parents=True, exist_ok=True)
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR_DIR / "celery" / "beat-schedule")
CELERY_TIMEZONE = "UTC"

# Caches -------------------------------------------------------------------------------------------

# What throttles count lies where all web processes find it; nothing else is cached outside memory.
_throttles: dict[str, Any] = {
    "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
    "LOCATION": str(VAR_DIR / "throttles"),
    "OPTIONS": {"MAX_ENTRIES": 1000},
}
if CELERY_BROKER_URL.startswith(("redis://", "rediss://")):
    _throttles = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": CELERY_BROKER_URL,
        "KEY_PREFIX": "epochcast-throttles",
        # A Redis that hangs must not hang the API.
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
    }
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "throttles": _throttles,
}

# Files that browsers load -----------------------------------------------------------------------

STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"] if (BASE_DIR / "static").is_dir() else []
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# Each file is kept and compressed once, under its hashed name.
WHITENOISE_KEEP_ONLY_HASHED_FILES = True

# Security ---------------------------------------------------------------------------------------

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        # Plotly writes its styles into the page and draws its images from data.
        "style-src": [SELF, UNSAFE_INLINE],
        "img-src": [SELF, "data:", "blob:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    },
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
CSRF_FAILURE_VIEW = "predictions.views.errors.csrf_failure"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"

# The site is reached over HTTPS through a proxy that sets X-Forwarded-Proto itself.
HTTPS = environment.boolean("HTTPS", default=False)
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "admin:login"

# Language, time ---------------------------------------------------------------------------------

LANGUAGE_CODE = "en-us"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

# API --------------------------------------------------------------------------------------------

_api_requests = environment.integer(
    "API_REQUESTS_PER_MINUTE", default=1200, minimum=1, maximum=1_000_000
)
REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticatedOrReadOnly"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
    "PAGE_SIZE": 100,
    # Whose address counts when files are: behind our proxy the one it saw, else the peer's. What
    # a client writes into X-Forwarded-For itself never counts.
    "NUM_PROXIES": 1 if HTTPS else 0,
    "DEFAULT_THROTTLE_CLASSES": ["predictions.throttling.SharedAnonThrottle"],
    "DEFAULT_THROTTLE_RATES": {"anon": f"{_api_requests}/minute"},
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Epochcast API",
    "DESCRIPTION": "Training time and cost of CNNs on cloud GPU machines.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    # A file is sent as bytes and never sent back.
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "predictions.api.schema.drop_column_limits",
        "predictions.api.schema.declare_refusals",
    ],
    # The interface comes from an installed package: nothing is loaded from elsewhere.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# Logs -------------------------------------------------------------------------------------------

LOG_LEVEL = environment.choice(
    "LOG_LEVEL", default="INFO", allowed=("DEBUG", "INFO", "WARNING", "ERROR")
)
LOG_FORMAT = environment.choice("LOG_FORMAT", default="text", allowed=("text", "json"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "{asctime} {levelname} {name} {message}", "style": "{"},
        "json": {"()": "predictor_site.request_log.JsonFormatter"},
    },
    "filters": {
        "private_links": {"()": "predictor_site.request_log.PrivateLinkFilter"},
        "refusals": {"()": "predictor_site.request_log.RefusalFilter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["private_links", "refusals"],
        }
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        # Kombu warns that filesystem:// names no host, which it cannot.
        "kombu.connection": {"level": "ERROR"},
        # What it says when nobody answers, with tracebacks, our own errors say in a line.
        "paramiko": {"level": "CRITICAL"},
        # Django's own console handler would write each line a second time.
        "django": {"handlers": [], "propagate": True},
        **{
            name: {"level": LOG_LEVEL}
            for name in ("predictor_site", "predictions", "regression", "benchmarking")
        },
    },
}
