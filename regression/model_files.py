"""Trained models as files, so that a new installation forecasts without training."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import xgboost as xgb
from django.db import transaction

from benchmarking.models import Machine, SoftwareStack
from regression.models import Evaluation, TrainedModel
from regression.signals import models_trained
from regression.trained import read_fitted
from regression.training import store_report

SCHEMA = 1
LARGEST_BOOSTER_BYTES = 64 * 2**20

_COPIED = (
    "version",
    "features",
    "data_hash",
    "layer_timing_count",
    "iteration_timing_count",
    "networks",
    "points",
    "library_versions",
    "coefficients",
    "layer_batch_sizes",
    "interval_errors",
    "metrics",
)
_BOOSTERS = ("booster", "layer_booster")


class ModelFileError(ValueError):
    """A file holds no usable model; the message is one sentence that names the file."""


def export_model(trained: TrainedModel, folder: Path) -> Path:
    """Write a model with its booster and its evaluation; returns the path."""
    evaluation = Evaluation.objects.filter(machine=trained.machine, stack=trained.stack).first()
    stack = {name: getattr(trained.stack, name) for name in SoftwareStack.SPEC_FIELDS}
    content = {
        "schema": SCHEMA,
        "machine": trained.machine.slug,
        "stack": stack,
        "trained_at": trained.trained_at.isoformat(),
        **{name: getattr(trained, name) for name in _COPIED},
        "evaluation": evaluation.report if evaluation else None,
        "evaluation_points": evaluation.points if evaluation else [],
        **{name: _pack(bytes(getattr(trained, name))) for name in _BOOSTERS},
    }
    folder.mkdir(parents=True, exist_ok=True)
    words = (trained.machine.slug, stack["engine"], stack["framework_version"], stack["precision"])
    path = folder / (re.sub(r"[^a-z0-9.]+", "-", "-".join(words).lower()) + ".json")
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def load_model_file(path: Path) -> TrainedModel | None:
    """Store the model of a file as the active one; ``None`` where nothing had to be done.

    A model of the same version, or one that was trained later, stays as it is. Raises
    ``ModelFileError`` on a file that cannot be used; nothing is stored then.
    """
    content = _read(path)
    machine = Machine.objects.select_related("device").filter(slug=content["machine"]).first()
    if machine is None:
        raise ModelFileError(
            f"{path}: unknown machine {content['machine']!r}; load_catalogue first"
        )
    trained_at = datetime.fromisoformat(content["trained_at"])
    with transaction.atomic():
        stack, _ = SoftwareStack.objects.get_or_create(**content["stack"])
        stored = TrainedModel.objects.filter(machine=machine, stack=stack)
        if (
            stored.filter(version=content["version"]).exists()
            or stored.filter(is_active=True, trained_at__gt=trained_at).exists()
        ):
            return None
        stored.filter(is_active=True).update(is_active=False)
        trained = TrainedModel.objects.create(
            machine=machine,
            device=machine.device,
            stack=stack,
            trained_at=trained_at,
            **{name: content[name] for name in (*_COPIED, *_BOOSTERS)},
        )
        if content["evaluation"]:
            store_report(
                machine,
                stack,
                content["data_hash"],
                content["evaluation"],
                content["evaluation_points"],
                trained_at,
            )
        transaction.on_commit(
            lambda: models_trained.send(
                sender=TrainedModel, device_id=machine.device_id, stack_id=stack.pk
            )
        )
    return trained


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ModelFileError(
                f"{path}: this version reads model files of schema {SCHEMA}, "
                f"not {content['schema']!r}"
            )
        needed = {"machine", "trained_at", "evaluation", "evaluation_points", *_COPIED}
        missing = needed - set(content)
        if missing or set(content["stack"]) != set(SoftwareStack.SPEC_FIELDS):
            raise ModelFileError(f"{path}: lacks {', '.join(sorted(missing)) or 'a whole stack'}")
        datetime.fromisoformat(content["trained_at"])
        content |= {name: _unpack(content[name]) for name in _BOOSTERS}
        learnt = ("coefficients", "layer_batch_sizes", "interval_errors", *_BOOSTERS)
        read_fitted(TrainedModel(**{name: content[name] for name in learnt}))
    except (OSError, ValueError, KeyError, TypeError, zlib.error, xgb.core.XGBoostError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: not a model file ({_first_line(error)})") from error
    return dict(content)


def _pack(booster: bytes) -> str:
    return base64.b64encode(zlib.compress(booster, 9)).decode()


def _unpack(text: str) -> bytes:
    packed = base64.b64decode(text, validate=True)
    return zlib.decompressobj().decompress(packed, LARGEST_BOOSTER_BYTES)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
