"""From names of CNNs to rows, each at the image size that was meant."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarking.models import Architecture
from benchmarking.suggestions import did_you_mean

DEFAULT_IMAGE_SIZE = 224
# Networks that train at another size than the rest.
DEFAULT_IMAGE_SIZES = {"inception_v3": 299}


class SelectionError(ValueError):
    """A CNN or image size that is not known; the message says what is."""


def select_architectures(
    names: Sequence[str] = (), image_size: int | None = None
) -> list[Architecture]:
    """The architectures called ``names`` in their order, or all of them, the quickest first.

    Without ``image_size`` each comes at the size that it is usually trained at. Layers are
    prefetched. Raises ``SelectionError`` for a name or a size that is not known.
    """
    rows = Architecture.objects.prefetch_related("uses__layer").order_by("multiply_adds", "slug")
    rows = rows.filter(slug__in=names) if names else rows.public()
    by_slug: dict[str, dict[int, Architecture]] = {}
    for row in rows:
        by_slug.setdefault(row.slug, {})[row.image_size] = row
    if not by_slug and not names:
        raise SelectionError("no architectures are known; load_architectures brings them")
    chosen: list[Architecture] = []
    for name in names or by_slug:
        sizes = by_slug.get(name)
        if sizes is None:
            known = Architecture.objects.public().values_list("slug", flat=True).distinct()
            raise SelectionError(f"unknown architecture {name!r}{did_you_mean(name, known)}")
        architecture = _at_size(sizes, image_size, name)
        if architecture is not None:
            chosen.append(architecture)
        elif names:
            known_sizes = ", ".join(str(size) for size in sorted(sizes))
            raise SelectionError(
                f"{name} is not known at {image_size} px; known are {known_sizes} px"
            )
    if not chosen:
        raise SelectionError(f"no architecture is known at {image_size} px")
    return chosen


def _at_size(
    sizes: dict[int, Architecture], image_size: int | None, name: str
) -> Architecture | None:
    if image_size is not None:
        return sizes.get(image_size)
    usual = sizes.get(DEFAULT_IMAGE_SIZES.get(name, DEFAULT_IMAGE_SIZE))
    return usual or sizes[min(sizes)]
