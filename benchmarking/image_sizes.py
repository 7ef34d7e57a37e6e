"""The image size that a CNN trains at unless somebody says otherwise."""

from __future__ import annotations

from collections.abc import Sequence

DEFAULT_IMAGE_SIZE = 224

# torchvision trains its auxiliary head only from 288 px on.
_IMAGE_SIZE_OF = {"inception_v3": 299}


def usual_image_size(architecture: str, traced_sizes: Sequence[int] = ()) -> int:
    """Pixels that a CNN usually trains at: what is measured and what is forecast by default.

    Where that size was not traced, the nearest of ``traced_sizes`` stands in.
    """
    usual = _IMAGE_SIZE_OF.get(architecture, DEFAULT_IMAGE_SIZE)
    if not traced_sizes or usual in traced_sizes:
        return usual
    return min(traced_sizes, key=lambda size: (abs(size - usual), size))
