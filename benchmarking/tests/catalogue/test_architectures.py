"""Loading traced networks: rows keep their identity when what they say is replaced."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchmarking.catalogue.architectures import load_architectures
from benchmarking.catalogue.errors import CatalogueError
from benchmarking.models import Architecture, ArchitectureLayer, ConvolutionLayer, LayerTiming
from benchmarking.specs import (
    ConvolutionSpec,
    ConvolutionUse,
    OperationSpec,
    Phase,
    TracedNetwork,
)
from benchmarking.tests.factories import create_layer_timing, create_run
from benchmarking.tracing.fixture import dump_traced_networks

pytestmark = pytest.mark.django_db

FIRST = ConvolutionSpec(3, 32, 32, 8, 3, 3, 2, 2, 1, 1)
SECOND = ConvolutionSpec(8, 16, 16, 16, 3, 3, 1, 1, 1, 1, bias=True)
THIRD = ConvolutionSpec(16, 16, 16, 16, 1, 1)
NETWORK = TracedNetwork(
    slug="tinynet",
    family="tiny",
    image_size=32,
    parameters=1000,
    parameter_tensors=4,
    multiply_adds=123_456,
    saved_bytes_per_example=1234.5,
    saved_bytes_fixed=10.0,
    saved_bytes_amp_per_example=617.25,
    saved_bytes_amp_fixed=5.0,
    convolutions=(
        ConvolutionUse(FIRST, 1, False),
        ConvolutionUse(SECOND, 2, True),
        ConvolutionUse(FIRST, 3, True),
    ),
    operations=(
        OperationSpec("convolution", Phase.FORWARD, 6, 100.0, 10.5, 5000.0),
        OperationSpec("_foreach_add_", Phase.OPTIMIZER, 1, 0.0, 8000.0),
    ),
    minimum_batch_size=2,
    note="Traced without its head.",
)
LARGER = replace(NETWORK, image_size=64, convolutions=(ConvolutionUse(THIRD, 1),))
VERSIONS = {"torch": "2.14.1", "torchvision": "0.29.1"}


def write(
    path: Path, *networks: TracedNetwork, source: str = "torchvision", **versions: str
) -> Path:
    dump_traced_networks(networks, path, source=source, versions=VERSIONS | versions)
    return path


def test_rows_give_back_the_traced_network(tmp_path: Path) -> None:
    report = load_architectures([write(tmp_path / "a.json", NETWORK, LARGER)])
    assert (report.created, report.replaced, report.unchanged) == (2, 0, 0)
    assert report.layers_created == 3
    row = Architecture.objects.get(slug="tinynet", image_size=32)
    assert row.to_spec() == NETWORK
    assert (row.source, row.source_version) == ("torchvision", "torch 2.14.1 torchvision 0.29.1")
    assert Architecture.objects.get(image_size=64).to_spec() == LARGER


def test_several_files_and_compressed_ones_are_loaded_as_one(tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", NETWORK)
    second = write(tmp_path / "b.json.gz", LARGER, NETWORK)
    assert load_architectures([first, second]).created == 2


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", NETWORK, LARGER)
    load_architectures([path])
    before = list(ArchitectureLayer.objects.order_by("pk").values())
    report = load_architectures([path])
    assert (report.created, report.replaced, report.unchanged) == (0, 0, 2)
    assert report.layers_created == 0
    assert list(ArchitectureLayer.objects.order_by("pk").values()) == before


def test_a_new_trace_replaces_the_old_and_timings_stay(tmp_path: Path) -> None:
    load_architectures([write(tmp_path / "a.json", NETWORK)])
    before = Architecture.objects.get()
    timing = create_layer_timing(
        run=create_run(), layer=ConvolutionLayer.objects.get(key=SECOND.key)
    )
    changed = replace(NETWORK, parameters=1001, note="", convolutions=(ConvolutionUse(THIRD, 5),))
    report = load_architectures([write(tmp_path / "a.json", changed)])
    assert (report.created, report.replaced, report.layers_created) == (0, 1, 1)
    after = Architecture.objects.get()
    assert after.pk == before.pk
    assert after.to_spec() == changed
    assert LayerTiming.objects.get(pk=timing.pk).layer.key == SECOND.key


def test_changed_values_leave_the_uses_alone(tmp_path: Path) -> None:
    load_architectures([write(tmp_path / "a.json", NETWORK)])
    uses = list(ArchitectureLayer.objects.order_by("pk").values())
    changed = replace(NETWORK, operations=NETWORK.operations[:1])
    assert load_architectures([write(tmp_path / "a.json", changed)]).replaced == 1
    assert list(ArchitectureLayer.objects.order_by("pk").values()) == uses
    assert Architecture.objects.get().operations == [
        ["convolution", "forward", 6, 100.0, 10.5, 5000.0]
    ]


def test_another_version_of_the_source_is_recorded(tmp_path: Path) -> None:
    load_architectures([write(tmp_path / "a.json", NETWORK)])
    report = load_architectures([write(tmp_path / "a.json", NETWORK, torchvision="0.30.0")])
    assert report.replaced == 1
    assert Architecture.objects.get().source_version == "torch 2.14.1 torchvision 0.30.0"


def test_a_network_of_another_source_is_left_alone(tmp_path: Path) -> None:
    load_architectures([write(tmp_path / "a.json", NETWORK)])
    other = replace(NETWORK, parameters=2)
    report = load_architectures([write(tmp_path / "b.json", other, LARGER, source="upload")])
    assert report.left_alone == ["tinynet at 32 px is described by torchvision, not by upload"]
    assert report.created == 1
    assert Architecture.objects.get(image_size=32).parameters == 1000


def test_files_that_contradict_each_other_store_nothing(tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", NETWORK, LARGER)
    second = write(tmp_path / "b.json", replace(NETWORK, parameters=2))
    with pytest.raises(CatalogueError, match="tinynet at 32 px is described twice, differently"):
        load_architectures([first, second])
    assert Architecture.objects.count() == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "f" * 41}, "tinynet: its family is longer than 40 characters"),
        ({"slug": "s" * 81}, "its slug is longer than 80 characters"),
        (
            {"convolutions": (ConvolutionUse(THIRD, 1), ConvolutionUse(THIRD, 2))},
            "tinynet at 32 px lists a layer twice instead of counting it",
        ),
    ],
)
def test_a_network_that_no_row_can_hold_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "a.json", LARGER, replace(NETWORK, **changes))
    with pytest.raises(CatalogueError, match=message):
        load_architectures([path])
    assert Architecture.objects.count() == 0


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", NETWORK, LARGER)
    first, second = StringIO(), StringIO()
    call_command("load_architectures", path, stdout=first)
    call_command("load_architectures", path, stdout=second)
    assert first.getvalue() == (
        "architectures: 2 created, 0 replaced, 0 unchanged; layers: 3 created\n"
    )
    assert second.getvalue() == "Nothing to change: 2 architectures are loaded.\n"


@pytest.mark.parametrize("text", ["", '{"schema": 99}', "[]"])
def test_the_command_refuses_a_broken_file_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(CommandError) as caught:
        call_command("load_architectures", path)
    assert caught.value.returncode == 2
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
