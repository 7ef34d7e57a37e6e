"""The size that is meant when nobody names one."""

from __future__ import annotations

import pytest

from benchmarking.image_sizes import usual_image_size


@pytest.mark.parametrize(
    ("architecture", "traced_sizes", "pixels"),
    [
        ("resnet50", (), 224),
        ("resnet50", (128, 224, 256), 224),
        ("inception_v3", (224, 299), 299),
        ("tiny", (64, 192, 512), 192),
        ("tiny", (208, 240), 208),
    ],
)
def test_the_usual_size_or_the_nearest_traced(
    architecture: str, traced_sizes: tuple[int, ...], pixels: int
) -> None:
    assert usual_image_size(architecture, traced_sizes) == pixels
