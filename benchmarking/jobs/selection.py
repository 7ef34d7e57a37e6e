"""From names of CNNs to rows, each at the image size that was meant."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarking.image_sizes import usual_image_size
from benchmarking.models import Architecture
from benchmarking.probe.checked_fields import without_unstorable
from benchmarking.suggestions import did_you_mean, quoted


class SelectionError(ValueError):
    """A CNN or image size that is not known; the message says what is."""


def select_architectures(
    names: Sequence[str] = (), image_size: int | None = None
) -> list[Architecture]:
    """The architectures called ``names`` in their order, or all of them, the quickest first.

    Without ``image_size`` each comes at the size that it is usually trained at. Layers are
    prefetched. Raises ``SelectionError`` for a name or a size that is not known.
    """
    known = Architecture.objects.public().order_by("multiply_adds", "slug")
    # A terminal's stray bytes are no name, and no database can be asked for them.
    askable = [name for name in names if without_unstorable(name) == name]
    rows = Architecture.objects.filter(slug__in=askable) if names else known
    by_slug: dict[str, dict[int, int]] = {}
    for key, slug, size in rows.values_list("pk", "slug", "image_size"):
        by_slug.setdefault(slug, {})[size] = key
    if not by_slug and not names:
        raise SelectionError("no architectures are known; load_architectures brings them")
    chosen: list[int] = []
    for name in names or by_slug:
        sizes = by_slug.get(name)
        if sizes is None:
            slugs = known.order_by().values_list("slug", flat=True).distinct()
            hint = did_you_mean(name, slugs) or "; /architectures/ lists the known ones"
            raise SelectionError(f"unknown architecture {quoted(name)}{hint}")
        key_at_size = _at_size(sizes, image_size, name)
        if key_at_size is not None:
            chosen.append(key_at_size)
        elif names:
            known_sizes = ", ".join(str(size) for size in sorted(sizes))
            raise SelectionError(
                f"{name} is not known at {image_size} px; known are {known_sizes} px"
            )
    if not chosen:
        raise SelectionError(f"no architecture is known at {image_size} px")
    architectures = Architecture.objects.with_layers().in_bulk(chosen)
    return [architectures[key] for key in chosen]


def _at_size(sizes: dict[int, int], image_size: int | None, name: str) -> int | None:
    if image_size is not None:
        return sizes.get(image_size)
    return sizes[usual_image_size(name, tuple(sizes))]
