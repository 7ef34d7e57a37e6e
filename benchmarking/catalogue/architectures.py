"""Traced networks into architecture rows, a thousand in seconds, again and again.

An architecture is found by slug and image size and a layer by its key, and both keep their row,
so that timings keep pointing at them when a new trace replaces what it says. Nothing is deleted
but the uses of an architecture whose trace has changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from django.db import models, transaction

from benchmarking.catalogue.errors import CatalogueError
from benchmarking.models import Architecture, ArchitectureLayer, ConvolutionLayer
from benchmarking.specs import ConvolutionSpec, TracedNetwork
from benchmarking.tracing.errors import FixtureError
from benchmarking.tracing.fixture import TracedFile, load_traced_file

_SCALARS = (
    "family",
    "parameters",
    "parameter_tensors",
    "multiply_adds",
    "saved_bytes_per_example",
    "saved_bytes_fixed",
    "saved_bytes_amp_per_example",
    "saved_bytes_amp_fixed",
    "minimum_batch_size",
    "note",
)
_VALUES = (*_SCALARS, "operations")
_WRITTEN = (*_VALUES, "source", "source_version")
_BATCH = 500
# As the columns of Architecture: PostgreSQL refuses what is longer, SQLite does not.
_LONGEST = {"slug": 80, "family": 40, "note": 300}
_LONGEST_LAYER_KEY = 120

Key: TypeAlias = tuple[str, int]
Use: TypeAlias = tuple[int, str, int, bool]


@dataclass(slots=True)
class ArchitectureReport:
    """What a load did; ``left_alone`` names networks that another source already describes."""

    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    layers_created: int = 0
    left_alone: list[str] = field(default_factory=list)


def load_architectures(paths: Sequence[Path]) -> ArchitectureReport:
    """Store the traced networks of some files, all or none; a second call changes nothing.

    Raises ``CatalogueError`` if a file cannot be used or two files disagree about a network.
    """
    files = []
    for path in paths:
        try:
            files.append(load_traced_file(path))
        except FixtureError as error:
            raise CatalogueError(str(error)) from error
    return store_traced_files(files)


def store_traced_files(files: Sequence[TracedFile]) -> ArchitectureReport:
    """Store traced networks in one transaction; raises ``CatalogueError`` on a contradiction."""
    origins = _collect(files)
    report = ArchitectureReport()
    with transaction.atomic():
        layer_ids = _store_layers((network for network, _, _ in origins.values()), report)
        _store_architectures(origins, layer_ids, report)
    return report


def store_uploaded_network(network: TracedNetwork) -> Architecture:
    """Store one network that somebody brought; it stays out of public lists.

    Raises ``CatalogueError`` where the columns cannot hold it.
    """
    _refuse_unusable(network)
    specs = {use.layer.key: use.layer for use in network.convolutions}
    with transaction.atomic():
        ConvolutionLayer.objects.bulk_create(
            [ConvolutionLayer.from_spec(spec) for spec in specs.values()],
            ignore_conflicts=True,
            batch_size=_BATCH,
        )
        found = ConvolutionLayer.objects.filter(key__in=list(specs))
        layer_ids = dict(found.values_list("key", "id"))
        architecture = Architecture.objects.create(
            slug=network.slug,
            image_size=network.image_size,
            source=Architecture.UPLOADED,
            **_values(network),
        )
        _create_uses([(architecture.pk, network)], layer_ids)
    return architecture


def remove_uploaded_network(architecture: Architecture) -> None:
    """Delete an uploaded network and the layers that nobody else has and nobody measured.

    What an operator measured on it is never deleted: then the network stays, without its name.
    """
    layers = ConvolutionLayer.objects.filter(uses__architecture=architecture)
    layer_ids = list(layers.values_list("id", flat=True))
    with transaction.atomic():
        try:
            architecture.delete()
        except models.ProtectedError:
            architecture.slug = f"removed-upload-{architecture.pk}"
            architecture.save(update_fields=["slug"])
            return
        ConvolutionLayer.objects.filter(
            pk__in=layer_ids, uses=None, timings=None, failures=None
        ).delete()


def _collect(files: Sequence[TracedFile]) -> dict[Key, tuple[TracedNetwork, str, str]]:
    collected: dict[Key, tuple[TracedNetwork, str, str]] = {}
    for file in files:
        source = file.source or "unknown"
        version = " ".join(f"{name} {number}" for name, number in sorted(file.versions.items()))
        for network in file.networks:
            _refuse_unusable(network)
            key = (network.slug, network.image_size)
            if key in collected and collected[key][0] != network:
                raise CatalogueError(
                    f"{network.slug} at {network.image_size} px is described twice, differently"
                )
            collected[key] = (network, source, version[:40])
    return collected


def _refuse_unusable(network: TracedNetwork) -> None:
    for name, longest in _LONGEST.items():
        if len(getattr(network, name)) > longest:
            raise CatalogueError(
                f"{network.slug[:80]}: its {name} is longer than {longest} characters"
            )
    if any(len(use.layer.key) > _LONGEST_LAYER_KEY for use in network.convolutions):
        raise CatalogueError(f"{network.slug}: the numbers of a layer are too long")
    uses = [(use.layer, use.needs_input_gradient) for use in network.convolutions]
    if len(set(uses)) != len(uses):
        raise CatalogueError(
            f"{network.slug} at {network.image_size} px lists a layer twice instead of counting it"
        )


def _store_layers(networks: Iterable[TracedNetwork], report: ArchitectureReport) -> dict[str, int]:
    layers: dict[str, ConvolutionSpec] = {
        use.layer.key: use.layer for network in networks for use in network.convolutions
    }
    known = set(ConvolutionLayer.objects.values_list("key", flat=True))
    new = [ConvolutionLayer.from_spec(spec) for key, spec in layers.items() if key not in known]
    ConvolutionLayer.objects.bulk_create(new, batch_size=_BATCH)
    report.layers_created = len(new)
    return dict(ConvolutionLayer.objects.values_list("key", "id"))


def _store_architectures(
    origins: dict[Key, tuple[TracedNetwork, str, str]],
    layer_ids: dict[str, int],
    report: ArchitectureReport,
) -> None:
    stored = {(row.slug, row.image_size): row for row in Architecture.objects.all()}
    stored_uses = _stored_uses()
    written: list[Architecture] = []
    rewritten: list[TracedNetwork] = []
    for key, (network, source, version) in origins.items():
        row = stored.get(key)
        if row is not None and row.source != source:
            report.left_alone.append(f"{row} is described by {row.source}, not by {source}")
            continue
        values = _values(network) | {"source": source, "source_version": version}
        same_uses = row is not None and stored_uses.get(row.pk, []) == _uses(network)
        if same_uses and all(getattr(row, name) == value for name, value in values.items()):
            report.unchanged += 1
            continue
        written.append(Architecture(slug=network.slug, image_size=network.image_size, **values))
        if not same_uses:
            rewritten.append(network)
        if row is None:
            report.created += 1
        else:
            report.replaced += 1
    Architecture.objects.bulk_create(
        written,
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["slug", "image_size"],
        update_fields=_WRITTEN,
    )
    _replace_uses(rewritten, layer_ids)


def _values(network: TracedNetwork) -> dict[str, Any]:
    operations = [
        [
            operation.name,
            operation.phase.value,
            operation.calls,
            operation.bytes_per_example,
            operation.bytes_fixed,
            operation.multiply_adds_per_example,
        ]
        for operation in network.operations
    ]
    return {name: getattr(network, name) for name in _SCALARS} | {"operations": operations}


def _uses(network: TracedNetwork) -> list[Use]:
    return [
        (position, use.layer.key, use.count, use.needs_input_gradient)
        for position, use in enumerate(network.convolutions)
    ]


def _stored_uses() -> dict[int, list[Use]]:
    uses: dict[int, list[Use]] = defaultdict(list)
    rows = ArchitectureLayer.objects.order_by("architecture_id", "position").values_list(
        "architecture_id", "position", "layer__key", "count", "needs_input_gradient"
    )
    for architecture_id, position, key, count, needs_input_gradient in rows.iterator():
        uses[architecture_id].append((position, key, count, needs_input_gradient))
    return uses


def _replace_uses(networks: Sequence[TracedNetwork], layer_ids: dict[str, int]) -> None:
    ids = {
        (slug, image_size): pk
        for slug, image_size, pk in Architecture.objects.values_list("slug", "image_size", "id")
    }
    owners = [ids[network.slug, network.image_size] for network in networks]
    for start in range(0, len(owners), _BATCH):
        batch = owners[start : start + _BATCH]
        ArchitectureLayer.objects.filter(architecture_id__in=batch).delete()
    _create_uses(list(zip(owners, networks, strict=True)), layer_ids)


def _create_uses(owned: Sequence[tuple[int, TracedNetwork]], layer_ids: dict[str, int]) -> None:
    ArchitectureLayer.objects.bulk_create(
        (
            ArchitectureLayer(
                architecture_id=owner,
                layer_id=layer_ids[key],
                position=position,
                count=count,
                needs_input_gradient=needs_input_gradient,
            )
            for owner, network in owned
            for position, key, count, needs_input_gradient in _uses(network)
        ),
        batch_size=_BATCH,
    )
