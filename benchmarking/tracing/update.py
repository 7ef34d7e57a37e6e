"""Traces networks of a source into a file, keeping what the file holds besides."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarking.suggestions import did_you_mean
from benchmarking.tracing.errors import FixtureError, TracingError
from benchmarking.tracing.fixture import dump_traced_networks, load_traced_file
from benchmarking.tracing.sources import load_source
from benchmarking.tracing.sweep import NetworkTraces, SkippedSize, trace_source
from benchmarking.tracing.tracer import LARGEST_IMAGE_SIZE

LARGEST_PROCESSES = 256


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """What to trace. ``image_sizes`` is ``None`` for the usual sizes of each network."""

    source_name: str
    slugs: tuple[str, ...]
    image_sizes: tuple[int, ...] | None
    processes: int | None
    is_complete: bool

    @classmethod
    def create(
        cls,
        *,
        source_name: str,
        slugs: Sequence[str] | None = None,
        image_sizes: Sequence[int] | None = None,
        processes: int | None = None,
    ) -> TraceRequest:
        """A checked request; raises ``TracingError`` with what is allowed."""
        known = [network.slug for network in load_source(source_name).networks()]
        for slug in slugs or ():
            if slug not in known:
                raise TracingError(
                    f"{source_name} has no network {slug!r}{did_you_mean(slug, known)}"
                )
        for image_size in image_sizes or ():
            if not 1 <= image_size <= LARGEST_IMAGE_SIZE:
                raise TracingError(
                    f"Image size {image_size} is not allowed: 1 to {LARGEST_IMAGE_SIZE} pixels."
                )
        if processes is not None and not 1 <= processes <= LARGEST_PROCESSES:
            raise TracingError(f"--processes {processes} is not allowed: 1 to {LARGEST_PROCESSES}.")
        return cls(
            source_name=source_name,
            slugs=tuple(sorted(set(slugs or known))),
            image_sizes=tuple(sorted(set(image_sizes))) if image_sizes else None,
            processes=processes,
            is_complete=not slugs and not image_sizes,
        )


@dataclass(frozen=True, slots=True)
class FileUpdate:
    """What a request changed: numbers of traces written anew and kept, and sizes left out."""

    traced: int
    kept: int
    skipped: tuple[SkippedSize, ...]

    def skipped_lines(self) -> list[str]:
        """One line per network with the sizes that it does not accept."""
        skips_of: dict[str, list[SkippedSize]] = defaultdict(list)
        for skip in self.skipped:
            skips_of[skip.slug].append(skip)
        lines = []
        for _, (*smaller, largest) in sorted(skips_of.items()):
            others = ", ".join(str(skip.image_size) for skip in smaller)
            lines.append(largest.reason + (f" (nor on {others} px)" if others else ""))
        return lines


def _refuse_unwritable(path: Path) -> None:
    """Say so before minutes of tracing; ``FixtureError`` names what is wrong."""
    if not path.parent.is_dir():
        raise FixtureError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise FixtureError(f"{path}: is a folder, not a file")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise FixtureError(f"{path}: cannot be written")


def update_traced_file(
    path: Path,
    request: TraceRequest,
    *,
    on_progress: Callable[[int, str], None] = lambda done, description: None,
) -> FileUpdate:
    """Trace what is asked for and write it to ``path``.

    A complete request replaces the file. Any other keeps the networks and sizes that the file
    holds besides, provided that the same versions traced them.

    Raises ``TracingError`` if no network accepts the sizes asked for, or if the file that is to
    be kept cannot be read or was traced by other versions; the file then stays as it was.
    """
    source = load_source(request.source_name)
    _refuse_unwritable(path)
    kept = {}
    if not request.is_complete and path.exists():
        existing = load_traced_file(path)
        if (existing.source, dict(existing.versions)) != (source.name, source.versions):
            raise FixtureError(
                f"{path}: was traced by {_by_whom(existing.source, existing.versions)}, not by "
                f"{_by_whom(source.name, source.versions)}: trace everything again, "
                "or choose another --output"
            )
        kept = {(network.slug, network.image_size): network for network in existing.networks}
    finished: list[NetworkTraces] = []

    def count(traces: NetworkTraces) -> None:
        finished.append(traces)
        on_progress(len(finished), traces.slug)

    results = trace_source(
        request.source_name,
        slugs=request.slugs,
        image_sizes=request.image_sizes,
        processes=request.processes,
        on_network=count,
    )
    traced = [network for traces in results for network in traces.traced]
    skipped = tuple(skip for traces in results for skip in traces.skipped)
    if not traced:
        raise TracingError(skipped[0].reason)
    for network in traced:
        kept.pop((network.slug, network.image_size), None)
    dump_traced_networks(
        [*traced, *kept.values()], path, source=source.name, versions=source.versions
    )
    return FileUpdate(traced=len(traced), kept=len(kept), skipped=skipped)


def _by_whom(source: str, versions: object) -> str:
    numbers = versions.items() if isinstance(versions, dict) else ()
    return " ".join([source or "unknown", *(f"{name} {number}" for name, number in numbers)])
