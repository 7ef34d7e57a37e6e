"""Names that somebody may have meant."""

from __future__ import annotations

import pytest

from benchmarking.suggestions import closest_names, did_you_mean, did_you_mean_sentence

DEVICES = ("a10", "a100-sxm4-40gb", "h100-pcie-80gb", "t4", "v100-pcie-32gb", "v100-sxm2-16gb")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("V100", ["v100-pcie-32gb", "v100-sxm2-16gb"]),
        ("h100", ["h100-pcie-80gb"]),
        ("v100-pcie-32g", ["v100-pcie-32gb", "h100-pcie-80gb"]),
        ("sxm4", ["a100-sxm4-40gb"]),
        ("q", []),
        ("", []),
        ("toaster", []),
    ],
)
def test_misspelt_names_and_parts_of_names(text: str, names: list[str]) -> None:
    assert closest_names(text, DEVICES) == names


def test_the_sentence_ends_with_the_names() -> None:
    assert did_you_mean("v100", DEVICES) == " (did you mean v100-pcie-32gb or v100-sxm2-16gb?)"
    assert did_you_mean("toaster", DEVICES) == ""


def test_a_sentence_of_its_own_has_one_name_more() -> None:
    assert did_you_mean_sentence("100", DEVICES) == (
        " Did you mean a10 or a100-sxm4-40gb or h100-pcie-80gb?"
    )
    assert did_you_mean_sentence("toaster", DEVICES) == ""
