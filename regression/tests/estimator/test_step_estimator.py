from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarking.specs import DeviceSpec, Optimizer, Precision
from regression.public_data.devices import load_device_specs
from regression.step_estimator import EstimatorFormatError, StepEstimator
from regression.stored_reports import ESTIMATOR_FOLDER
from regression.tests.estimator.specimens import CPU, DEPTHWISE, small_network

BATCH_SIZES = [1, 2, 3, 5, 8, 16, 24, 32, 48, 64, 100, 128, 256, 512, 1024]


@pytest.fixture(scope="module")
def estimator() -> StepEstimator:
    return StepEstimator.load(ESTIMATOR_FOLDER)


@pytest.fixture(scope="module")
def devices() -> dict[str, DeviceSpec]:
    return load_device_specs()


@pytest.mark.parametrize(
    ("slug", "precision"),
    [
        ("k80", Precision.FP32),
        ("t4", Precision.AMP),
        ("a100-sxm4-80gb", Precision.TF32),
        ("h100-sxm5-80gb", Precision.AMP),
        ("l4", Precision.TF32),
    ],
)
def test_more_examples_never_take_less_time(
    estimator: StepEstimator, devices: dict[str, DeviceSpec], slug: str, precision: Precision
) -> None:
    estimate = estimator.estimate(small_network(), devices[slug], BATCH_SIZES, precision)
    assert (np.diff(estimate.iteration_ms) >= 0).all()
    assert (estimate.low_ms < estimate.iteration_ms).all()
    assert (estimate.iteration_ms < estimate.high_ms).all()
    assert np.isfinite(estimate.high_ms).all()


def test_the_answer_does_not_depend_on_what_else_is_asked(
    estimator: StepEstimator, devices: dict[str, DeviceSpec]
) -> None:
    together = estimator.estimate(small_network(), devices["t4"], [64, 16], Precision.FP32)
    alone = estimator.estimate(small_network(), devices["t4"], [16], Precision.FP32)
    assert together.iteration_ms[1] == pytest.approx(alone.iteration_ms[0], rel=1e-12)


def test_faster_devices_are_faster_where_they_are_busy(
    estimator: StepEstimator, devices: dict[str, DeviceSpec]
) -> None:
    order = [
        ("k80", "fp32"),
        ("m60", "fp32"),
        ("t4", "fp32"),
        ("v100-sxm2-16gb", "fp32"),
        ("a100-sxm4-80gb", "tf32"),
        ("h100-sxm5-80gb", "tf32"),
    ]
    times = [
        estimator.estimate(
            small_network(blocks=40), devices[slug], [256], Precision(precision)
        ).iteration_ms[0]
        for slug, precision in order
    ]
    assert times == sorted(times, reverse=True)


def test_many_small_operations_are_bound_by_the_host(
    estimator: StepEstimator, devices: dict[str, DeviceSpec]
) -> None:
    estimate = estimator.estimate(
        small_network(blocks=60), devices["h100-sxm5-80gb"], [1, 1024], Precision.TF32
    )
    assert estimate.bound_by == ("host", "device")
    assert estimate.iteration_ms[0] >= estimate.host_ms[0]


def test_parts_add_up_to_the_devices_time(
    estimator: StepEstimator, devices: dict[str, DeviceSpec]
) -> None:
    estimate = estimator.estimate(small_network(blocks=40), devices["k80"], [256], Precision.FP32)
    device_ms = estimate.convolution_ms + estimate.remainder_ms
    assert estimate.iteration_ms[0] == pytest.approx(device_ms[0], rel=0.02)


def test_what_an_estimate_rests_on(
    estimator: StepEstimator, devices: dict[str, DeviceSpec]
) -> None:
    def basis(slug: str, precision: Precision) -> tuple[str, bool]:
        estimate = estimator.estimate(small_network(), devices[slug], [32], precision)
        return estimate.basis, estimate.indicative

    assert basis("v100-sxm2-32gb", Precision.FP32) == ("iterations", False)
    assert basis("p100-pcie-16gb", Precision.FP32) == ("layers", False)
    assert basis("rtx-3090", Precision.AMP) == ("iterations", False)
    assert basis("h100-sxm5-80gb", Precision.TF32) == ("specification", False)
    assert basis("h100-sxm5-80gb", Precision.AMP) == ("specification", True)


def test_less_knowledge_never_makes_a_narrower_interval(
    estimator: StepEstimator, devices: dict[str, DeviceSpec]
) -> None:
    widths = [
        float(np.log(each.high_ms / each.iteration_ms)[0])
        for each in (
            estimator.estimate(small_network(), devices[slug], [64], precision)
            for slug, precision in (
                ("v100-sxm2-16gb", Precision.FP32),
                ("p100-pcie-16gb", Precision.FP32),
                ("h100-sxm5-80gb", Precision.TF32),
            )
        )
    ]
    assert widths == sorted(widths)
    assert widths[0] >= 0.1
    assert widths[2] <= 0.7


def test_adamw_takes_longer_than_sgd(
    estimator: StepEstimator, devices: dict[str, DeviceSpec]
) -> None:
    network = small_network(parameters=100_000_000)
    sgd, adamw = (
        estimator.estimate(network, devices["t4"], [8], Precision.FP32, each).iteration_ms[0]
        for each in (Optimizer.SGD, Optimizer.ADAMW)
    )
    assert adamw > sgd * 1.01


def test_depthwise_networks_have_their_own_interval_cell(
    estimator: StepEstimator, devices: dict[str, DeviceSpec]
) -> None:
    dense = small_network()
    use = dataclasses.replace(dense.convolutions[1], layer=DEPTHWISE, count=30)
    narrow = small_network("narrow", convolutions=(dense.convolutions[0], use))
    estimate = estimator.estimate(narrow, devices["v100-sxm2-16gb"], [128], Precision.FP32)
    half_width = float(np.log(estimate.high_ms / estimate.iteration_ms)[0])
    assert half_width == pytest.approx(estimator.half_widths["iterations full narrow"])


@pytest.mark.parametrize("sizes", [[], [0], [1025], [-3, 4]])
def test_batch_sizes_out_of_range_are_refused(
    estimator: StepEstimator, devices: dict[str, DeviceSpec], sizes: list[int]
) -> None:
    with pytest.raises(ValueError, match="batch sizes are 1 to 1024"):
        estimator.estimate(small_network(), devices["t4"], sizes, Precision.FP32)


def test_tf32_on_a_v100_is_refused(
    estimator: StepEstimator, devices: dict[str, DeviceSpec]
) -> None:
    with pytest.raises(ValueError, match="has no tf32; it has fp32, amp"):
        estimator.estimate(small_network(), devices["v100-sxm2-16gb"], [8], Precision.TF32)


def test_cpus_are_not_covered(estimator: StepEstimator) -> None:
    with pytest.raises(ValueError, match="only GPUs are estimated"):
        estimator.estimate(small_network(), CPU, [8], Precision.FP32)


def test_it_survives_being_stored(
    estimator: StepEstimator, tmp_path: Path, devices: dict[str, DeviceSpec]
) -> None:
    estimator.save(tmp_path, {"seed": 1})
    loaded = StepEstimator.load(tmp_path)
    for slug in ("t4", "a100-sxm4-40gb"):
        request = (small_network(), devices[slug], [1, 77, 512], Precision.AMP)
        assert loaded.estimate(*request).iteration_ms.tolist() == pytest.approx(
            estimator.estimate(*request).iteration_ms.tolist(), rel=1e-6
        )
    assert loaded.model_version == estimator.model_version


def test_a_missing_or_broken_estimator_says_so(tmp_path: Path) -> None:
    with pytest.raises(EstimatorFormatError, match="no usable estimator"):
        StepEstimator.load(tmp_path)
    (tmp_path / "estimator.json").write_text("{}")
    with pytest.raises(EstimatorFormatError, match="it lacks chips_with_iterations, "):
        StepEstimator.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coefficients": None}, "coefficients is not what it should be"),
        ({"coefficients": {"norm": 0.7}}, "coefficients lack .*, grouped:full, grouped:half, "),
        ({"half_widths": {}}, "half_widths lack iterations amp dense, "),
        ({"source": "DeepBench"}, "source is not what it should be"),
    ],
)
def test_what_a_forecast_would_miss_is_refused_at_once(
    estimator: StepEstimator, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    estimator.save(tmp_path, {})
    path = tmp_path / "estimator.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(EstimatorFormatError, match=message):
        StepEstimator.load(tmp_path)


@pytest.mark.parametrize("width", [None, "0.3", float("nan")])
def test_an_interval_that_is_no_number_is_refused(
    estimator: StepEstimator, tmp_path: Path, width: Any
) -> None:
    estimator.save(tmp_path, {})
    path = tmp_path / "estimator.json"
    content = json.loads(path.read_text())
    content["half_widths"]["layers full dense"] = width
    path.write_text(json.dumps(content))
    with pytest.raises(EstimatorFormatError, match="layers full dense is no finite number"):
        StepEstimator.load(tmp_path)


def test_a_cut_off_layer_file_is_refused_in_one_line(
    estimator: StepEstimator, tmp_path: Path
) -> None:
    estimator.save(tmp_path, {})
    path = tmp_path / "layers.ubj"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(EstimatorFormatError, match="no usable estimator") as caught:
        StepEstimator.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_shipped_estimator_is_small() -> None:
    size = sum(path.stat().st_size for path in ESTIMATOR_FOLDER.iterdir())
    assert size < 3_000_000
