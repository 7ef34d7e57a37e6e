"""Networks read together with their layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytest_django import DjangoAssertNumQueries

from benchmarking.models import Architecture, ArchitectureLayer, ConvolutionLayer
from benchmarking.tests.factories import MIDDLE_LAYER, create_architecture

pytestmark = pytest.mark.django_db

# SQLite takes expressions up to a thousand deep.
LAYER_COUNT = 1500


def test_any_number_of_layers_comes_in_two_queries(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    networks = [create_architecture(slug=slug) for slug in ("deep", "deeper")]
    layers = [
        ConvolutionLayer.from_spec(replace(MIDDLE_LAYER, in_channels=channels))
        for channels in range(1, LAYER_COUNT + 1)
    ]
    ConvolutionLayer.objects.bulk_create(layers, ignore_conflicts=True)
    ArchitectureLayer.objects.all().delete()
    stored = ConvolutionLayer.objects.in_bulk([layer.key for layer in layers], field_name="key")
    ArchitectureLayer.objects.bulk_create(
        ArchitectureLayer(
            architecture=networks[position % 2],
            layer=stored[layer.key],
            position=position,
            count=1,
        )
        for position, layer in enumerate(layers)
    )

    with django_assert_num_queries(2):
        specs = [architecture.to_spec() for architecture in Architecture.objects.with_layers()]

    assert [spec.slug for spec in specs] == ["deep", "deeper"]
    channels = [use.layer.in_channels for spec in specs for use in spec.convolutions]
    assert channels == [*range(1, LAYER_COUNT + 1, 2), *range(2, LAYER_COUNT + 1, 2)]
