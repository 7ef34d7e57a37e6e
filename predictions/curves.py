"""Forecast curves: read the stored ones, compute and store what is missing or stale.

This is the one place where predictions asks regression for iteration times.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, transaction
from django.db.models import F, Q
from django.utils import timezone

from benchmarking.models import Architecture, Device, Machine
from benchmarking.specs import Optimizer, Precision
from predictions.models import ForecastCurve
from predictions.query import BATCH_SIZE_LADDER, MAX_BATCH_SIZES

if TYPE_CHECKING:
    from regression.iteration import IterationCurve

logger = logging.getLogger(__name__)

# Every curve holds these, so that most questions are answered without computing.
STANDARD_BATCH_SIZES = tuple(sorted({*range(1, 65), *BATCH_SIZE_LADDER}))

COLUMNS = (
    "iteration_ms",
    "low_ms",
    "high_ms",
    "sources",
    "measured_share",
    "memory_mib",
    "fits",
    "bound_by",
    "notes",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a CNN trains: a machine, or a device alone of which no machine is chosen."""

    device: Device
    machine: Machine | None = None

    @property
    def key(self) -> str:
        """The slug of the machine, or ``device:`` and the slug of the device."""
        return self.machine.slug if self.machine else f"device:{self.device.slug}"


@dataclass(frozen=True, slots=True)
class CurveRequest:
    """One curve that is wanted; ``architecture`` may have its layers and operations deferred."""

    architecture: Architecture
    place: Place
    precision: Precision
    optimizer: Optimizer

    @property
    def key(self) -> tuple[int, str, str, str]:
        """What tells the stored curves apart."""
        return (self.architecture.pk, self.place.key, self.precision, self.optimizer)

    def inputs_digest(self) -> str:
        """A digest of the values that an operator or a new trace may change."""
        architecture = self.architecture
        values = (
            architecture.parameters,
            architecture.multiply_adds,
            architecture.saved_bytes_per_example,
            architecture.saved_bytes_amp_per_example,
            architecture.minimum_batch_size,
            self.place.device.to_spec(),
        )
        return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def curves_for(
    requests: Sequence[CurveRequest], batch_sizes: Iterable[int] | None
) -> dict[tuple[int, str, str, str], ForecastCurve]:
    """The curve of every request, by :attr:`CurveRequest.key`.

    Each curve holds at least ``batch_sizes`` (``None``: the standard ones). Stored curves cost
    one query together; what is missing, stale or too short is computed and stored.
    """
    wanted = set(batch_sizes) if batch_sizes is not None else set(BATCH_SIZE_LADDER)
    stored = {curve_key(curve): curve for curve in _stored_curves(requests)}
    found: dict[tuple[int, str, str, str], ForecastCurve] = {}
    to_compute: list[tuple[CurveRequest, set[int]]] = []
    for request in requests:
        curve = stored.get(request.key)
        if curve is None or curve.is_stale or curve.inputs_digest != request.inputs_digest():
            to_compute.append((request, wanted))
        elif not wanted.issubset(curve.points["batch_sizes"]):
            to_compute.append((request, wanted.union(curve.points["batch_sizes"])))
        else:
            found[request.key] = curve
    if to_compute:
        found |= _compute_and_store(to_compute, at_least=wanted)
    return found


def curve_key(curve: ForecastCurve) -> tuple[int, str, str, str]:
    """The key of the request that ``curve`` answers."""
    return (curve.architecture_id, curve.place, curve.precision, curve.optimizer)


def mark_stale(device_ids: Iterable[int], at: datetime | None = None) -> int:
    """Say that timings or models of these devices changed; returns how many curves that hits."""
    return ForecastCurve.objects.filter(device_id__in=list(device_ids)).update(
        stale_since=at or timezone.now()
    )


def mark_outdated(trained_at: Mapping[int, datetime]) -> int:
    """Mark every curve older than the newest model of its device; for lost messages.

    ``trained_at`` maps a device's id to the time of its newest model.
    """
    marked = 0
    for device_id, at in trained_at.items():
        marked += (
            ForecastCurve.objects.filter(device_id=device_id, computed_at__lt=at)
            .filter(Q(stale_since=None) | Q(stale_since__lt=F("computed_at")))
            .update(stale_since=at)
        )
    return marked


def refresh_stale_curves(limit: int, device_id: int | None = None) -> int:
    """Compute up to ``limit`` stale curves again; returns how many were computed."""
    stale = ForecastCurve.objects.filter(stale_since__gte=F("computed_at"))
    if device_id is not None:
        stale = stale.filter(device_id=device_id)
    curves = list(
        stale.select_related("architecture", "device", "machine__device").order_by("stale_since")[
            :limit
        ]
    )
    requests = [
        (
            CurveRequest(
                curve.architecture,
                Place(curve.device, curve.machine),
                Precision(curve.precision),
                Optimizer(curve.optimizer),
            ),
            set(curve.points["batch_sizes"]),
        )
        for curve in curves
    ]
    return len(_compute_and_store(requests, at_least=set())) if requests else 0


def _stored_curves(requests: Sequence[CurveRequest]) -> Iterable[ForecastCurve]:
    if not requests:
        return []
    return ForecastCurve.objects.filter(
        architecture_id__in={request.architecture.pk for request in requests},
        place__in={request.place.key for request in requests},
        precision__in={request.precision for request in requests},
        optimizer__in={request.optimizer for request in requests},
    )


def _compute_and_store(
    requests: Sequence[tuple[CurveRequest, set[int]]], at_least: set[int]
) -> dict[tuple[int, str, str, str], ForecastCurve]:
    complete = {
        architecture.pk: architecture
        for architecture in Architecture.objects.with_layers().filter(
            pk__in={request.architecture.pk for request, _ in requests}
        )
    }
    curves = {}
    for request, sizes in requests:
        union = sizes.union(STANDARD_BATCH_SIZES)
        if len(union) > 2 * MAX_BATCH_SIZES:
            # Other people's questions of the past must not make this one slow.
            union = at_least.union(STANDARD_BATCH_SIZES)
        started_at = timezone.now()
        answer = compute_curve(
            complete[request.architecture.pk],
            request.place,
            request.precision,
            request.optimizer,
            sorted(union),
        )
        curves[request.key] = _to_model(request, answer, started_at)
    _store(curves.values())
    return curves


def compute_curve(
    architecture: Architecture,
    place: Place,
    precision: Precision,
    optimizer: Optimizer,
    batch_sizes: Sequence[int],
) -> IterationCurve:
    """Ask regression: imported here, since XGBoost loads slowly and most answers are stored."""
    from regression.iteration import iteration_curve

    return iteration_curve(
        architecture=architecture,
        device=place.device,
        machine=place.machine,
        precision=precision,
        batch_sizes=batch_sizes,
        optimizer=optimizer,
    )


def _to_model(request: CurveRequest, answer: IterationCurve, started_at: datetime) -> ForecastCurve:
    points: dict[str, list[Any]] = {"batch_sizes": [int(size) for size in answer.batch_sizes]}
    for column in COLUMNS:
        points[column] = [_plain(value) for value in getattr(answer, column)]
    return ForecastCurve(
        architecture_id=request.architecture.pk,
        device=request.place.device,
        machine=request.place.machine,
        place=request.place.key,
        precision=request.precision.value,
        optimizer=request.optimizer.value,
        points=points,
        largest_batch=answer.largest_batch,
        stack=answer.stack or "",
        model_version=answer.model_version,
        inputs_digest=request.inputs_digest(),
        computed_at=started_at,
    )


def _plain(value: Any) -> Any:
    """A value that JSON can hold: numpy's floats and string enumerations become plain ones."""
    if value is None or isinstance(value, (bool, int)):
        return value
    return str(value) if isinstance(value, str) else float(value)


def _store(curves: Iterable[ForecastCurve]) -> None:
    try:
        with transaction.atomic():
            # stale_since stays out: a change that came while we computed must not be forgotten.
            ForecastCurve.objects.bulk_create(
                curves,
                update_conflicts=True,
                unique_fields=["architecture", "place", "precision", "optimizer"],
                update_fields=[
                    "points",
                    "largest_batch",
                    "stack",
                    "model_version",
                    "inputs_digest",
                    "computed_at",
                ],
            )
    except DatabaseError:
        # The answer is right all the same; the next question computes it again.
        logger.warning("forecast curves could not be stored", exc_info=True)
