"""Which of the shipped networks train auxiliary heads, and at which sizes."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from benchmarking.auxiliary_heads import has_auxiliary_heads
from benchmarking.models import Architecture
from benchmarking.tracing.fixture import load_traced_file


def test_googlenet_has_heads_and_inception_where_images_are_large_enough() -> None:
    shipped = load_traced_file(Path(settings.BASE_DIR) / "fixtures" / "architectures.json")
    with_heads: dict[str, set[int]] = {}
    for network in shipped.networks:
        operations = [(each.name, each.phase.value, each.calls) for each in network.operations]
        if has_auxiliary_heads(Architecture(operations=operations)):
            with_heads.setdefault(network.slug, set()).add(network.image_size)
    sizes = {network.image_size for network in shipped.networks if network.slug == "googlenet"}
    assert with_heads == {
        "googlenet": sizes,
        "inception_v3": {size for size in sizes if size > 288} | {299},
    }
