"""What a forecast assumes, in sentences: stack, optimizer, prices, devices, what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from predictions.display import format_exact_usd, listed
from predictions.form import OPTIMIZER_LABELS, PRECISION_LABELS, PRICE_LABELS
from predictions.query import SPOT_INTERRUPTION_PERCENT
from predictions.rows import Forecast

STALE_AFTER_DAYS = 60


def make_assumptions(forecast: Forecast) -> list[str]:
    """One sentence per assumption, the same for every row where possible."""
    query = forecast.query
    answered = [row for series in forecast.series for row in series.answered[:1]]
    stacks = _distinct(row.stack for row in answered if row.stack)
    precisions = _distinct(row.precision for row in answered)
    loader = (
        f"the input pipeline delivers {query.loader_images_per_second:,.6g} images/s"
        if query.loader_images_per_second
        else "every batch is already on the device"
    )
    precision_text = ", ".join(PRECISION_LABELS[precision] for precision in precisions) or "FP32"
    return [
        f"Software: {'; '.join(stacks) or 'PyTorch, as estimated from the specification'}.",
        f"Optimizer {OPTIMIZER_LABELS[query.optimizer.value]}; {precision_text}; {loader}.",
        *_device_sentences(forecast),
        *_price_sentences(forecast),
        *_totals_sentences(forecast),
    ]


def stale_price_sentence(forecast: Forecast, today: date) -> str:
    """How old the oldest price on the page is, where it is old; else empty."""
    dated = [
        (series.price.first_day, series.price.as_of, series.label)
        for series in forecast.series
        if series.price and series.price.first_day
    ]
    if not dated:
        return ""
    day, as_of, label = min(dated)
    age = (today - day).days
    if age <= STALE_AFTER_DAYS:
        return ""
    return (
        f"Prices here are up to {age:,} days old ({label}: {as_of}). "
        "Check them with the provider before you decide."
    )


def _device_sentences(forecast: Forecast) -> list[str]:
    counts = {
        series.label: series.place.machine.device_count
        for series in forecast.series
        if series.place.machine and series.place.machine.device_count > 1
    }
    if not counts:
        return ["Training uses one device."]
    return [
        f"{label} uses 1 of {count} GPUs; you pay for all {count}."
        for label, count in list(counts.items())[:6]
    ]


def _price_sentences(forecast: Forecast) -> list[str]:
    quoted = {}
    for series in forecast.series:
        if series.price:
            price = series.price
            kind = PRICE_LABELS[price.kind]
            notional = ", notional: that of a comparable machine" if price.notional else ""
            quoted[series.label] = (
                f"{series.label} {format_exact_usd(float(price.usd_per_hour))}/h {kind} in "
                f"{price.region} ({price.as_of or 'undated'}{notional})"
            )
    if not quoted:
        return []
    shown = list(quoted.values())
    more = f"; and {len(shown) - 8} more" if len(shown) > 8 else ""
    return [f"Prices in US dollars for the whole machine: {'; '.join(shown[:8])}{more}."]


def _totals_sentences(forecast: Forecast) -> list[str]:
    """What the totals hold beyond the epochs, and what they leave out."""
    query, sentences = forecast.query, []
    extras = query.training().extras()
    if extras:
        sentences.append(f"Total time and cost include {listed(extras)}.")
    if query.price == "spot":
        sentences.append(
            "How often a spot machine is taken away is nobody's promise: "
            + (
                "the overhead of interruptions is yours."
                if query.interruption_overhead is not None
                else f"{SPOT_INTERRUPTION_PERCENT:g} % is an assumption, for work done again and "
                "new starts; set your own above."
            )
        )
    left_out = ["data transfer", "evaluation", "checkpoints"]
    if not query.start_minutes:
        left_out.insert(0, "start-up")
    if not query.storage_gib:
        left_out.insert(0, "storage")
    offered = [part for part in ("storage", "start-up") if part in left_out]
    more = f" ({listed(offered)} can be added above)" if offered else ""
    return [*sentences, f"Left out: {listed(left_out)}{more}."]


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
