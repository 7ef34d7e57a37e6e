"""``manage.py trace_architectures``: what it writes, what it keeps, what it refuses."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from benchmarking.tracing.fixture import (
    dump_traced_networks,
    load_traced_file,
    load_traced_networks,
)


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("trace_architectures", *arguments, stdout=output)
    return output.getvalue()


def described(path: Path) -> list[tuple[str, int]]:
    return [(network.slug, network.image_size) for network in load_traced_networks(path)]


@pytest.mark.torch
def test_it_writes_the_networks_asked_for_and_says_what_was_skipped(tmp_path: Path) -> None:
    path = tmp_path / "architectures.json"
    output = run(
        *("--architectures", "squeezenet1_1", "alexnet", "--image-size", "32"),
        *("--image-size", "64", "--image-size", "32", "--output", str(path), "--processes", "1"),
    )
    assert described(path) == [("alexnet", 64), ("squeezenet1_1", 32), ("squeezenet1_1", 64)]
    skipped, summary = output.splitlines()
    assert skipped.startswith("alexnet cannot train on 32 px images: ")
    assert summary == f"{path}: 3 traces of 2 networks, 0 others kept"
    assert load_traced_file(path).versions.keys() == {"torch", "torchvision"}


@pytest.mark.torch
def test_a_partial_request_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "architectures.json"
    common = ("--output", str(path), "--processes", "1", "--architectures")
    run(*common, "alexnet", "squeezenet1_1", "--image-size", "64")
    before = path.read_bytes()
    assert run(*common, "alexnet", "--image-size", "96").endswith("1 networks, 2 others kept\n")
    assert described(path) == [("alexnet", 64), ("alexnet", 96), ("squeezenet1_1", 64)]
    path.write_bytes(before)
    assert run(*common, "alexnet", "--image-size", "64").endswith("1 networks, 1 others kept\n")
    assert path.read_bytes() == before


@pytest.mark.torch
def test_several_processes_write_the_same_as_one(tmp_path: Path) -> None:
    common = ("--architectures", "alexnet", "vgg11", "--image-size", "64", "--output")
    run(*common, str(tmp_path / "one.json"), "--processes", "1")
    run(*common, str(tmp_path / "two.json"), "--processes", "2")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


@pytest.mark.torch
def test_traces_of_other_versions_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "architectures.json"
    run("--architectures", "alexnet", "--image-size", "64", "--output", str(path))
    dump_traced_networks(
        load_traced_networks(path), path, source="torchvision", versions={"torch": "1.0"}
    )
    before = path.read_bytes()
    with pytest.raises(
        CommandError, match=r"was traced by torchvision torch 1\.0, not by"
    ) as caught:
        run("--architectures", "vgg11", "--image-size", "64", "--output", str(path))
    assert caught.value.returncode == 2
    assert path.read_bytes() == before


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--architectures", "resnet5"], r"no network 'resnet5' \(did you mean resnet50"),
        (["--architectures", "vit_b_16"], "torchvision has no network 'vit_b_16'"),
        (["--image-size", "0"], "Image size 0 is not allowed: 1 to 4096 pixels"),
        (["--image-size", "-224"], "Image size -224 is not allowed"),
        (["--image-size", "1000000"], "Image size 1000000 is not allowed"),
        (["--image-size", "224.5"], "invalid int value"),
        (["--processes", "0"], "--processes 0 is not allowed"),
        (["--source", "torchvison"], "invalid choice: 'torchvison'"),
        (
            ["--architectures", "alexnet", "--image-size", "16"],
            "alexnet cannot train on 16 px images",
        ),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    path = tmp_path / "architectures.json"
    with pytest.raises(CommandError, match=message) as caught:
        run(*arguments, "--output", str(path))
    assert "\n" not in str(caught.value)
    assert not path.exists()


@pytest.mark.torch
def test_an_unreadable_file_is_not_overwritten_by_a_partial_request(tmp_path: Path) -> None:
    path = tmp_path / "architectures.json"
    path.write_text("{")
    with pytest.raises(CommandError, match="is not JSON"):
        run("--architectures", "alexnet", "--image-size", "64", "--output", str(path))
    assert path.read_text() == "{"


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hide(monkeypatch, "torch", "torchvision")
    with pytest.raises(CommandError) as caught:
        run("--output", str(tmp_path / "architectures.json"))
    assert str(caught.value) == ("Tracing needs torch: pip install -r requirements-benchmark.txt")
    assert caught.value.returncode == 2
    assert not list(tmp_path.iterdir())


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make imports of packages fail as they do where these are not installed."""
    for module in list(sys.modules):
        if module.startswith("benchmarking.tracing."):
            monkeypatch.delitem(sys.modules, module)
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("output", "sentence"),
    [("nowhere/traces.json", "there is no folder"), (".", "is a folder, not a file")],
)
def test_a_file_that_cannot_be_written_is_refused_before_tracing(
    output: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarking.tracing.update.trace_source", None)
    with pytest.raises(CommandError, match=sentence) as caught:
        run("--architectures", "alexnet", "--output", str(tmp_path / output))
    assert caught.value.returncode == 2
