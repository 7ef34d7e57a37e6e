"""The configuration files of DNNMark."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from benchmarking.probe.dnnmark.config import FORK, UPSTREAM, ConfigError, config_text
from benchmarking.specs import ConvolutionSpec
from benchmarking.tests.probe.dnnmark_stub import KEYS

VGG_FIRST = ConvolutionSpec(3, 224, 224, 64, 3, 3, 1, 1, 1, 1, bias=True)
OBLONG = ConvolutionSpec(128, 17, 19, 192, 1, 7, 1, 2, 0, 3)


def configured(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_fork_gets_all_batch_sizes_and_all_three_algorithms() -> None:
    assert config_text(asdict(VGG_FIRST), [1, 8, 64]) == (
        "[DNNMark]\n"
        "run_mode=standalone\n"
        "\n"
        "[Convolution]\n"
        "name=conv1\n"
        "n=1,8,64\n"
        "c=3\n"
        "h=224\n"
        "w=224\n"
        "previous_layer=null\n"
        "conv_mode=cross_correlation\n"
        "num_output=64\n"
        "kernel_size=3\n"
        "pad=1\n"
        "stride=1\n"
        "algofwd=cudnnv7\n"
        "algo=cudnnv7\n"
        "algod=cudnnv7\n"
    )


def test_search_for_the_fastest_is_cudnn_benchmark_mode() -> None:
    keys = configured(config_text(asdict(VGG_FIRST), [8], find_fastest=True))

    assert [keys[name] for name in ("algofwd", "algo", "algod")] == ["auto", "auto", "auto"]


def test_what_is_not_square_is_written_side_by_side() -> None:
    keys = configured(config_text(asdict(OBLONG), [8]))

    assert (keys["h"], keys["w"]) == ("17", "19")
    assert (keys["kernel_size_h"], keys["kernel_size_w"]) == ("1", "7")
    assert (keys["pad_h"], keys["pad_w"]) == ("0", "3")
    assert (keys["stride_h"], keys["stride_w"]) == ("1", "2")
    assert not {"kernel_size", "pad", "stride"} & set(keys)


@pytest.mark.parametrize("flavour", [FORK, UPSTREAM])
@pytest.mark.parametrize("layer", [VGG_FIRST, OBLONG])
def test_no_key_is_unknown_to_its_version(flavour: str, layer: ConvolutionSpec) -> None:
    assert set(configured(config_text(asdict(layer), [4], flavour))) <= KEYS[flavour]


def test_nothing_else_in_the_file_looks_like_a_batch_size() -> None:
    # The fork replaces every n= in the file, also at the end of a longer word.
    assert config_text(asdict(OBLONG), [4, 8]).count("n=") == 1


def test_upstream_takes_one_batch_size_and_has_no_algorithms() -> None:
    keys = configured(config_text(asdict(VGG_FIRST), [8], UPSTREAM))

    assert keys["n"] == "8"
    assert keys["conv_mode"] == "cross_correlation"
    assert not {"algo", "algod", "algofwd"} & set(keys)
    with pytest.raises(ConfigError, match="2 batch sizes do not go into one file for upstream"):
        config_text(asdict(VGG_FIRST), [8, 16], UPSTREAM)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": 3, "out_channels": 63}, "DNNMark times no grouped convolutions"),
        ({"dilation_height": 2}, "DNNMark times no dilated convolutions"),
        ({"dilation_width": 2}, "DNNMark times no dilated convolutions"),
    ],
)
def test_what_dnnmark_cannot_time_is_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_text(asdict(replace(VGG_FIRST, **changes)), [8])
    with pytest.raises(ConfigError, match="0 batch sizes"):
        config_text(asdict(VGG_FIRST), [], FORK)
