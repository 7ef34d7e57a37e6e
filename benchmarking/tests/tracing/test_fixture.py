"""The file of traced networks: what comes out is what went in, and rubbish stays out."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarking.specs import (
    ConvolutionSpec,
    ConvolutionUse,
    OperationSpec,
    Phase,
    TracedNetwork,
)
from benchmarking.tracing.errors import FixtureError
from benchmarking.tracing.fixture import (
    dump_traced_networks,
    format_traced_networks,
    load_traced_file,
    load_traced_networks,
    parse_traced_networks,
)

STEM = ConvolutionSpec(3, 32, 32, 8, 3, 3, 2, 1, 1, 0, 1, 2, 1, bias=True)
BODY = ConvolutionSpec(8, 16, 28, 8, 1, 1, groups=8)


def network(slug: str = "small", image_size: int = 32, note: str = "") -> TracedNetwork:
    return TracedNetwork(
        slug=slug,
        family="own",
        image_size=image_size,
        parameters=1234,
        parameter_tensors=6,
        multiply_adds=567890,
        saved_bytes_per_example=1000.5,
        saved_bytes_fixed=4.0,
        saved_bytes_amp_per_example=600.0,
        saved_bytes_amp_fixed=2468.0,
        convolutions=(ConvolutionUse(STEM, 1, False), ConvolutionUse(BODY, 3)),
        operations=(
            OperationSpec("convolution", Phase.FORWARD, 4, 100.0, 200.0, 300.0),
            OperationSpec("convolution_backward", Phase.BACKWARD, 4, 150.0, 250.5, 600.0),
            OperationSpec("add_", Phase.OPTIMIZER, 12, 0.0, 7404.0),
        ),
        minimum_batch_size=2,
        note=note,
    )


NETWORKS = [network("a", 32), network("a", 224, note="Without its head."), network("b", 32)]


@pytest.mark.parametrize("name", ["traces.json", "traces.json.gz"])
def test_networks_survive_the_round_trip(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new folder" / name
    dump_traced_networks(reversed(NETWORKS), path, source="own", versions={"torch": "2.14.1"})
    assert load_traced_networks(path) == NETWORKS
    loaded = load_traced_file(path)
    assert loaded.source == "own"
    assert loaded.versions == {"torch": "2.14.1"}
    assert [file.name for file in path.parent.iterdir()] == [name]


def test_equal_networks_give_equal_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "1.json.gz", tmp_path / "2.json.gz"
    dump_traced_networks(NETWORKS, first, versions={"a": "1", "b": "2"})
    dump_traced_networks(NETWORKS[::-1], second, versions={"b": "2", "a": "1"})
    assert first.read_bytes() == second.read_bytes()


def test_a_layer_is_written_once() -> None:
    document = json.loads(format_traced_networks(NETWORKS))
    assert document["convolutions"] == [
        [3, 32, 32, 8, 3, 3, 2, 1, 1, 0, 1, 2, 1, 1],
        [8, 16, 28, 8, 1, 1, 1, 1, 0, 0, 1, 1, 8, 0],
    ]
    assert document["networks"][0]["convolutions"] == [[0, 1, 0], [1, 3, 1]]
    assert document["networks"][0]["operations"][2] == [0, 2, 12, 0, 7404, 0]


def change(path: str, value: Any) -> Callable[[Any], None]:
    def apply(document: Any) -> None:
        *parents, last = (int(key) if key.lstrip("-").isdigit() else key for key in path.split("/"))
        for key in parents:
            document = document[key]
        document[last] = value

    return apply


def drop(key: str) -> Callable[[Any], None]:
    return lambda document: document["networks"][0].pop(key)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change("schema", 2), "schema 2, this version reads schema 1"),
        (change("schema", True), "schema True"),
        (change("source", 5), "source must be a text"),
        (change("versions", []), "versions must be an object"),
        (change("versions", {"torch": 2}), r"versions\.torch must be a text"),
        (change("convolution_columns", ["in_channels"]), "convolution_columns must be in_channels"),
        (change("convolutions", {}), "convolutions must be a list"),
        (change("convolutions/0", [1, 2]), r"convolutions\[0\] must be a list of 14 values"),
        (change("convolutions/0/0", -3), r"convolutions\[0\]\.in_channels must be a whole number"),
        (change("convolutions/0/1", 2.5), r"in_height must be a whole number from 1"),
        (change("convolutions/0/1", 10**9), r"in_height must be a whole number from 1"),
        (change("convolutions/0/4", 99), "kernel does not fit"),
        (change("convolutions/1/12", 3), "3 groups do not divide"),
        (change("convolutions/0/13", 2), "bias must be a whole number from 0 to 1"),
        (change("operation_names/0", "rm -rf /"), r"operation_names\[0\] is 'rm -rf /'"),
        (change("networks", []), "networks is empty"),
        (change("networks/0", 3), r"networks\[0\] must be an object"),
        (change("networks/1", None), r"networks\[1\] must be an object"),
        (drop("parameters"), r"networks\[0\] lacks parameters"),
        (change("networks/0/surprise", 1), "unknown keys: surprise"),
        (change("networks/0/slug", "../etc"), "slug is '../etc', which is no allowed name"),
        (change("networks/0/slug", "b"), "appears twice at the same image size"),
        (change("networks/0/family", ""), "a .*family is '', which is no allowed name"),
        (change("networks/0/image_size", 0), "image_size must be a whole number from 1"),
        (change("networks/0/parameters", True), "parameters must be a whole number"),
        (change("networks/0/multiply_adds", -1), "multiply_adds must be a whole number"),
        (change("networks/0/saved_bytes_fixed", -0.5), "saved_bytes_fixed must be from 0"),
        (change("networks/0/saved_bytes_fixed", "4"), "saved_bytes_fixed must be a number"),
        (change("networks/0/saved_bytes_fixed", 1e300), "saved_bytes_fixed must be from 0"),
        (change("networks/0/minimum_batch_size", 3), "minimum_batch_size must be a whole number"),
        (change("networks/0/note", "x" * 301), "note must be a text of at most 300"),
        (change("networks/0/convolutions/0/0", 2), "from 0 to 1"),
        (change("networks/0/convolutions/0/0", -1), "from 0 to 1"),
        (change("networks/0/convolutions/0/1", 0), "from 1 to"),
        (change("networks/0/operations/0/1", 3), "from 0 to 2"),
        (change("networks/0/operations/0/3", None), "must be a number"),
        (change("networks/0/operations/0", []), "must be a list of 6 values"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(
    tmp_path: Path, damage: Callable[[Any], None], message: str
) -> None:
    document = json.loads(format_traced_networks(NETWORKS))
    damage(document)
    path = tmp_path / "traces.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FixtureError, match=message) as caught:
        load_traced_networks(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        (format_traced_networks(NETWORKS)[:-100], "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must hold one JSON object"),
        ("{}", "schema None"),
        (format_traced_networks(NETWORKS).replace("1000.5", "NaN"), "holds NaN"),
        (format_traced_networks(NETWORKS).replace("1000.5", "Infinity"), "holds Infinity"),
        (format_traced_networks(NETWORKS).replace("1000.5", "1e999"), "must be from 0"),
        (format_traced_networks(NETWORKS).replace("1000.5", "9" * 5000), "is not JSON|from 0"),
    ],
)
def test_text_that_is_no_file_of_traced_networks(text: str, message: str) -> None:
    with pytest.raises(FixtureError, match=message):
        parse_traced_networks(text)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(FixtureError, match=r"missing\.json: cannot be read: No such file"):
        load_traced_file(tmp_path / "missing.json")
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FixtureError, match="is not UTF-8 text"):
        load_traced_file(binary)
    truncated = tmp_path / "truncated.json.gz"
    truncated.write_bytes(gzip.compress(b"{}" * 1000)[:-12])
    with pytest.raises(FixtureError, match="cannot be read"):
        load_traced_file(truncated)
    not_gzip = tmp_path / "not.json.gz"
    not_gzip.write_text("{}")
    with pytest.raises(FixtureError, match="cannot be read"):
        load_traced_file(not_gzip)


def test_the_file_is_read_without_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = sys.modules['torchvision'] = None; "
        "import benchmarking.tracing.fixture, benchmarking.tracing.sources, "
        "benchmarking.tracing.source, benchmarking.tracing.errors"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
