"""From a query to its forecast: which names there are, and a series for each CNN in each place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarking.catalogue.selectors import newest_prices
from benchmarking.models import Architecture, Device, Machine, Price
from predictions.curves import CurveRequest, Place, curves_for
from predictions.models import OwnNetwork
from predictions.prices import ChosenPrice
from predictions.query import MAX_ARCHITECTURES, Choices, ForecastQuery, QueryError
from predictions.rows import Forecast
from predictions.scaling import make_series, resolve_precision
from predictions.uploads.tokens import OWN_PREFIX


def load_choices(named: Iterable[str] = ()) -> Choices:
    """The names that a query may use just now.

    ``named`` are the CNNs that it does use: a private network counts only where it is named.
    """
    image_sizes: dict[str, list[int]] = {}
    for slug, size in (
        Architecture.objects.public()
        .order_by("slug", "image_size")
        .values_list("slug", "image_size")
    ):
        image_sizes.setdefault(slug, []).append(size)
    return Choices(
        image_sizes={slug: tuple(sizes) for slug, sizes in image_sizes.items()},
        own_image_sizes=_own_image_sizes(named),
        machines=tuple(Machine.objects.values_list("slug", flat=True)),
        devices=tuple(Device.objects.values_list("slug", flat=True)),
        regions=tuple(Price.objects.order_by().values_list("region", flat=True).distinct()),
    )


def _own_image_sizes(named: Iterable[str]) -> dict[str, tuple[int, ...]]:
    own = {slug for slug in named if slug.startswith(OWN_PREFIX) and slug.isprintable()}
    # Nobody compares more of them than a query may name.
    if not 0 < len(own) <= MAX_ARCHITECTURES:
        return {}
    found = OwnNetwork.objects.current().filter(architecture__slug__in=own)
    return {
        slug: (size,)
        for slug, size in found.order_by().values_list(
            "architecture__slug", "architecture__image_size"
        )
    }


def make_forecast(query: ForecastQuery) -> Forecast:
    """Answer ``query``: one series for each CNN in each place.

    A place that cannot do what is asked gets one row without figures and a note. The number of
    database queries does not depend on how much is asked, as long as the curves are stored.

    Raises :class:`QueryError` where a name has gone since the query was parsed.
    """
    architectures = _load_architectures(query)
    places, prices = _load_places(query)
    requests = {
        (slug, place.key): CurveRequest(architecture, place, precision, query.optimizer)
        for slug, architecture in architectures.items()
        for place in places
        if architecture is not None and (precision := resolve_precision(query, place)) is not None
    }
    curves = curves_for(list(requests.values()), query.batch_sizes)
    return Forecast(
        query=query,
        series=tuple(
            make_series(
                query,
                slug,
                architectures[slug],
                place,
                prices.get(place.key),
                curves[requests[slug, place.key].key] if (slug, place.key) in requests else None,
            )
            for slug in query.architectures
            for place in places
        ),
    )


def _load_architectures(query: ForecastQuery) -> dict[str, Architecture | None]:
    """Each CNN at the size asked for; ``None`` where it was not traced at that size."""
    traced: dict[str, dict[int, Architecture]] = {slug: {} for slug in query.architectures}
    # The operations are long, and only a curve that is computed needs them.
    for architecture in Architecture.objects.filter(slug__in=query.architectures).defer(
        "operations"
    ):
        traced[architecture.slug][architecture.image_size] = architecture
    gone = [slug for slug, sizes in traced.items() if not sizes]
    if gone:
        raise QueryError({"architecture": f"Unknown CNN '{gone[0]}'."})
    return {
        slug: sizes.get(query.image_size_of(slug, tuple(sizes))) for slug, sizes in traced.items()
    }


def _load_places(query: ForecastQuery) -> tuple[list[Place], dict[str, ChosenPrice]]:
    machines = {
        machine.slug: machine
        for machine in Machine.objects.filter(slug__in=query.machines).select_related("device")
    }
    devices = {device.slug: device for device in Device.objects.filter(slug__in=query.devices)}
    gone = [slug for slug in query.machines if slug not in machines]
    gone += [slug for slug in query.devices if slug not in devices]
    if gone:
        raise QueryError({"machine": f"Unknown machine or device '{gone[0]}'."})
    places = [Place(machines[slug].device, machines[slug]) for slug in query.machines]
    places += [Place(devices[slug]) for slug in query.devices]
    return places, _load_prices(query, list(machines.values()))


def _load_prices(query: ForecastQuery, machines: Sequence[Machine]) -> dict[str, ChosenPrice]:
    newest = newest_prices([machine.pk for machine in machines], query.price, query.region)
    return {
        machine.slug: ChosenPrice.from_price(newest[machine.pk])
        for machine in machines
        if machine.pk in newest
    }
