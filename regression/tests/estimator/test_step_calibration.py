from __future__ import annotations

import numpy as np
import pytest

from benchmarking.specs import Precision
from regression.step_calibration import (
    TERMS,
    Collection,
    StepCalibration,
    StepContext,
    chip_of,
    fit_calibration,
    forecast_host_factors,
)
from regression.tests.estimator.specimens import AMPERE, VOLTA

CONTEXT = StepContext("7.0/80", Precision.FP32, Collection.TIMM, "host a")
OTHER = StepContext("8.0/108", Precision.TF32, Collection.TIMM, "host b")


def _rows(count: int, seed: int = 4) -> np.ndarray:
    terms = np.random.default_rng(seed).lognormal(0.0, 1.0, (count, len(TERMS)))
    terms[:, [term.startswith("host_") for term in TERMS]] *= 0.01
    return terms


def _truth() -> StepCalibration:
    fitted = fit_calibration(_rows(1), [CONTEXT], np.array([10.0]), np.zeros(1))
    return StepCalibration(
        {**fitted.values, "norm": np.log(3.5), "compute 8.0/108 tf32": np.log(1.25)}
    )


def test_without_evidence_the_priors_stay() -> None:
    values = fit_calibration(_rows(3), [CONTEXT] * 3, np.full(3, 9.0), np.zeros(3)).values
    assert values["elementwise"] == pytest.approx(0.0, abs=1e-9)
    assert values["matrix"] == pytest.approx(np.log(1.5))
    assert values["compute 7.0/80 fp32"] == pytest.approx(0.0, abs=1e-9)


def test_it_finds_the_coefficients_that_made_the_times() -> None:
    terms = _rows(600)
    contexts = [CONTEXT, OTHER] * 300
    truth = _truth()
    fitted = fit_calibration(terms, contexts, truth.predict(terms, contexts), np.ones(600))
    assert np.exp(fitted.values["norm"]) == pytest.approx(3.5, rel=0.1)
    assert np.exp(fitted.values["compute 8.0/108 tf32"]) == pytest.approx(1.25, rel=0.1)
    errors = fitted.predict(terms, contexts) / truth.predict(terms, contexts) - 1
    assert np.abs(errors).max() < 0.05


def test_a_few_wild_times_do_not_move_it_much() -> None:
    terms = _rows(400)
    contexts = [CONTEXT] * 400
    times = _truth().predict(terms, contexts)
    wild = times.copy()
    wild[:20] *= 10
    calm = fit_calibration(terms, contexts, times, np.ones(400)).predict(terms, contexts)
    shaken = fit_calibration(terms, contexts, wild, np.ones(400)).predict(terms, contexts)
    assert np.median(np.abs(shaken / calm - 1)) < 0.05


def test_fitting_is_deterministic() -> None:
    terms, times = _rows(50), np.linspace(5, 50, 50)
    first, second = (
        fit_calibration(terms, [CONTEXT] * 50, times, np.ones(50)).values for _ in range(2)
    )
    assert first == second


def test_an_unknown_chip_has_factors_of_one() -> None:
    truth = _truth()
    unknown = StepContext("9.0/132", Precision.TF32, Collection.TIMM, "host c")
    column = TERMS.index("convolution_forward_3x3")
    known = truth.coefficients(OTHER)[column]
    assert truth.coefficients(unknown)[column] == pytest.approx(known / 1.25)


def test_half_precision_is_learnt_from_every_chip() -> None:
    volta = StepContext("7.0/80", Precision.AMP, Collection.TIMM, "host a")
    hopper = StepContext("9.0/132", Precision.AMP, Collection.TIMM, "host b")
    terms = _rows(300)
    plain = fit_calibration(terms, [volta] * 300, np.full(300, 1.0), np.zeros(300))
    slower = StepCalibration({**plain.values, "memory in half precision": np.log(1.4)})
    fitted = fit_calibration(
        terms, [volta] * 300, slower.predict(terms, [volta] * 300), np.ones(300)
    )
    column = TERMS.index("norm")
    found = fitted.coefficients(hopper)[column] / plain.coefficients(hopper)[column]
    assert 1.1 < found < 1.5


def test_a_forecasts_host_is_like_those_published_beside_its_chip() -> None:
    contexts = [CONTEXT, StepContext("7.0/80", Precision.AMP, Collection.TIMM, "host c"), OTHER]
    values = {"host host a": np.log(0.5), "host host c": np.log(2.0), "host host b": np.log(1.5)}
    factors = forecast_host_factors(contexts, values)
    assert factors == {
        "host forecast 7.0/80": pytest.approx(0.0),
        "host forecast 8.0/108": pytest.approx(0.8 * np.log(1.5)),
    }


def test_tensorflow_has_depthwise_kernels_of_its_own() -> None:
    profet = StepContext("7.0/80", Precision.FP32, Collection.PROFET, "h")
    assert profet.coefficient("depthwise_forward") == "depthwise_forward:tensorflow"
    assert CONTEXT.coefficient("depthwise_forward") == "depthwise_forward:full"


def test_boards_of_one_chip_share_factors() -> None:
    assert chip_of(VOLTA) == "7.0/80"
    assert chip_of(AMPERE) == "8.0/108"
