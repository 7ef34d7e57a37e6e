"""What people ask for and nobody has measured: counted in memory, stored by a worker.

A request costs a look-up in a dictionary. Once a minute a web process sends what it has counted
to the workers, in a thread of its own. A visitor counts once an hour for a CNN on a machine and
for at most twenty of these, so that a robot that walks through all pages weighs little.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from benchmarking.image_sizes import usual_image_size
from benchmarking.models import Architecture, Machine, MeasurementRequest

logger = logging.getLogger(__name__)

SEND_SECONDS = 60.0
FORGET_SECONDS = 3600.0
MOST_OF_A_VISITOR = 20
MOST_REMEMBERED = 10_000
# What nobody has asked for since then is not wanted any more.
LONGEST_INTEREST = timedelta(days=30)

Wish = tuple[str, str]
"""Slugs of a machine and of a CNN."""
Count = tuple[str, str, int]
"""The same, and by how many visitors."""


class RequestCounter:
    """The wishes that one web process has seen and not sent yet.

    Parameters
    ----------
    clock
        Seconds that only go forward; replaced by tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[Wish] = Counter()
        self._sent_at = clock()
        self._forgot_at = clock()
        self._seen: dict[str, set[Wish]] = {}
        self._seen_count = 0

    def note(self, wishes: Iterable[Wish], visitor: str) -> list[Count]:
        """Count what ``visitor`` asks for; return what is to be sent now, mostly nothing."""
        now = self._clock()
        with self._lock:
            if now - self._forgot_at >= FORGET_SECONDS:
                self._seen.clear()
                self._seen_count = 0
                self._forgot_at = now
            for wish in wishes:
                self._count(wish, visitor)
            if now - self._sent_at < SEND_SECONDS or not self._counts:
                return []
            counts = [(*wish, count) for wish, count in self._counts.items()]
            self._counts.clear()
            self._sent_at = now
            return counts

    def _count(self, wish: Wish, visitor: str) -> None:
        if self._seen_count >= MOST_REMEMBERED:
            return
        seen = self._seen.setdefault(visitor, set())
        if wish in seen or len(seen) >= MOST_OF_A_VISITOR:
            return
        seen.add(wish)
        self._seen_count += 1
        self._counts[wish] += 1


_counter = RequestCounter()


def note_requests(machines: Iterable[str], architectures: Iterable[str], visitor: str) -> None:
    """Count that ``visitor`` asks for every CNN on every machine, by their slugs.

    Nothing is done unless automatic benchmarks are on, and nothing for machines that they may
    not launch. Slugs that do not exist are dropped when they are stored.
    """
    if not settings.AUTOMATIC_BENCHMARKS:
        return
    allowed = set(settings.AUTOMATIC_BENCHMARK_MACHINES)
    wishes = [
        (machine, architecture)
        for machine in machines
        if machine in allowed
        for architecture in architectures
    ]
    if wishes and (counts := _counter.note(wishes[:MOST_OF_A_VISITOR], visitor)):
        # A broker that does not answer must not keep a visitor waiting.
        threading.Thread(target=_send, args=(counts,), daemon=True).start()


def store_requests(counts: Iterable[Count]) -> int:
    """Add to the stored counts; return how many pairs of machine and CNN were meant.

    A CNN is meant at the image size that it usually trains at.
    """
    wanted = {(machine, architecture): count for machine, architecture, count in counts}
    machines = dict(
        Machine.objects.filter(slug__in=settings.AUTOMATIC_BENCHMARK_MACHINES).values_list(
            "slug", "pk"
        )
    )
    architectures = _usual_architectures({architecture for _, architecture in wanted})
    now = timezone.now()
    stored = 0
    for (machine, architecture), count in wanted.items():
        if machine not in machines or architecture not in architectures:
            continue
        request, _ = MeasurementRequest.objects.get_or_create(
            machine_id=machines[machine], architecture_id=architectures[architecture]
        )
        MeasurementRequest.objects.filter(pk=request.pk).update(
            request_count=F("request_count") + max(0, count), last_requested_at=now
        )
        stored += 1
    return stored


def forget_old_requests() -> int:
    """Delete what nobody has asked for in a month; return how many."""
    old = MeasurementRequest.objects.filter(last_requested_at__lt=timezone.now() - LONGEST_INTEREST)
    deleted, _ = old.delete()
    return deleted


def _usual_architectures(slugs: set[str]) -> dict[str, int]:
    keys_by_size: dict[str, dict[int, int]] = {}
    rows = Architecture.objects.public().filter(slug__in=slugs)
    for key, slug, size in rows.values_list("pk", "slug", "image_size"):
        keys_by_size.setdefault(slug, {})[size] = key
    return {slug: keys[usual_image_size(slug, tuple(keys))] for slug, keys in keys_by_size.items()}


def _send(counts: list[Count]) -> None:
    from benchmarking.tasks import collect_requests

    try:
        collect_requests.delay(counts)
    except Exception as error:
        logger.warning("what people asked for was not counted: %r", error)
