"""From names of CNNs to rows at the size that was meant."""

from __future__ import annotations

import pytest

from benchmarking.jobs.selection import SelectionError, select_architectures
from benchmarking.models import Architecture
from benchmarking.tests.factories import create_architecture

pytestmark = pytest.mark.django_db


def keys(architectures: list[Architecture]) -> list[tuple[str, int]]:
    return [(architecture.slug, architecture.image_size) for architecture in architectures]


@pytest.fixture(autouse=True)
def architectures() -> None:
    create_architecture(slug="vgg16", image_size=224, multiply_adds=900)
    create_architecture(slug="resnet18", image_size=224, multiply_adds=100)
    create_architecture(slug="resnet18", image_size=160, multiply_adds=50)
    create_architecture(slug="inception_v3", image_size=224, multiply_adds=300)
    create_architecture(slug="inception_v3", image_size=299, multiply_adds=500)
    create_architecture(slug="efficientnet_v2_l", image_size=480, multiply_adds=9000)


def test_names_keep_their_order_and_get_their_usual_size() -> None:
    chosen = select_architectures(["vgg16", "inception_v3", "resnet18", "efficientnet_v2_l"])

    assert keys(chosen) == [
        ("vgg16", 224),
        ("inception_v3", 299),
        ("resnet18", 224),
        ("efficientnet_v2_l", 480),
    ]


def test_without_names_all_come_the_quickest_first() -> None:
    assert keys(select_architectures()) == [
        ("resnet18", 224),
        ("inception_v3", 299),
        ("vgg16", 224),
        ("efficientnet_v2_l", 480),
    ]


def test_size_is_asked_of_every_network_that_has_it() -> None:
    assert keys(select_architectures(image_size=224)) == [
        ("resnet18", 224),
        ("inception_v3", 224),
        ("vgg16", 224),
    ]
    assert keys(select_architectures(["resnet18"], 160)) == [("resnet18", 160)]


@pytest.mark.parametrize(
    ("names", "image_size", "message"),
    [
        (["resnet81"], None, "unknown architecture 'resnet81' (did you mean resnet18?)"),
        (
            ["?" * 2_000],
            None,
            f"unknown architecture '{'?' * 37}...'; /architectures/ lists the known ones",
        ),
        (["resnet18"], 99, "resnet18 is not known at 99 px; known are 160, 224 px"),
        ([], 99, "no architecture is known at 99 px"),
    ],
)
def test_unknown_names_and_sizes_are_refused(
    names: list[str], image_size: int | None, message: str
) -> None:
    with pytest.raises(SelectionError) as refused:
        select_architectures(names, image_size)
    assert str(refused.value) == message


def test_empty_installation_says_what_to_do() -> None:
    Architecture.objects.all().delete()

    with pytest.raises(SelectionError, match="load_architectures brings them"):
        select_architectures()
