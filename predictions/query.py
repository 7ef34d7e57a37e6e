"""What people ask for: one frozen query, one parser and one query string for every way in.

The command line, the page, the CSV, the JSON and the API all hand raw text to
:func:`parse_query`, so that one set of sentences says what is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from benchmarking.batch_sizes import format_batch_sizes, parse_batch_sizes
from benchmarking.image_sizes import usual_image_size
from benchmarking.specs import Optimizer, Precision
from benchmarking.suggestions import did_you_mean_sentence, quoted
from predictions.option_readers import (
    DEFAULT_REGION,
    number_above,
    number_from,
    one_of,
    read_region,
    whole_number,
    write_number,
)
from predictions.totals import Training
from predictions.uploads.tokens import OWN_PREFIX

DEFAULT_PRECISION = "default"
DEFAULT_EXAMPLES = 1_281_167
DEFAULT_EPOCHS = 1
DEFAULT_PRICE_KIND = "on-demand"
# Nobody measured it: work since the last checkpoint is done again, and a machine starts anew.
SPOT_INTERRUPTION_PERCENT = 10.0
# What AWS asks for a GiB-month of general purpose volumes (gp3) in us-east-1.
DEFAULT_STORAGE_USD_PER_GIB_MONTH = 0.08

PRECISIONS = (DEFAULT_PRECISION, *(precision.value for precision in Precision))
OPTIMIZERS = tuple(optimizer.value for optimizer in Optimizer)
PRICE_KINDS = ("on-demand", "spot")

# The batch sizes of a query that names none, as far as they fit.
BATCH_SIZE_LADDER = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)

MAX_EXAMPLES = 10_000_000_000
MAX_EPOCHS = 100_000
MAX_IMAGE_SIZE = 4096
MAX_BATCH_SIZE = 4096
MAX_BATCH_SIZES = 512
MAX_ARCHITECTURES = 80
MAX_PLACES = 100
MAX_ROWS = 10_000
MAX_VALUES = 400
MAX_TEXT_LENGTH = 2_000


class QueryError(ValueError):
    """A query that cannot be answered: one sentence for each field that is wrong.

    ``errors`` maps a field, by its name in the query string, to its sentence.
    """

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__(" ".join(errors.values()))
        self.errors = dict(errors)


@dataclass(frozen=True, slots=True)
class Choices:
    """The names that a query may use.

    ``image_sizes`` maps an architecture to the sizes in pixels that it was traced at;
    ``own_image_sizes`` does so for the private networks that the query names itself, which are
    never suggested to anybody.
    """

    image_sizes: Mapping[str, tuple[int, ...]]
    machines: tuple[str, ...]
    devices: tuple[str, ...]
    regions: tuple[str, ...]
    own_image_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def sizes_of(self, architecture: str) -> tuple[int, ...]:
        """The sizes in pixels that a known architecture was traced at."""
        own = self.own_image_sizes.get(architecture)
        return own if own is not None else self.image_sizes[architecture]


@dataclass(frozen=True, slots=True)
class ForecastQuery:
    """One question: which CNNs, where, on how much data.

    ``batch_sizes`` is ``None`` for the usual ladder up to what fits; ``image_size`` is ``None``
    for the usual size of each architecture; ``interruption_overhead``, in percent, is ``None`` for
    the usual one of the price kind; limits are ``None`` where there is none.
    """

    architectures: tuple[str, ...]
    machines: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] | None = None
    examples: int = DEFAULT_EXAMPLES
    epochs: int = DEFAULT_EPOCHS
    precision: str = DEFAULT_PRECISION
    image_size: int | None = None
    price: str = DEFAULT_PRICE_KIND
    region: str = DEFAULT_REGION
    optimizer: Optimizer = Optimizer.SGD
    loader_images_per_second: float | None = None
    interruption_overhead: float | None = None
    start_minutes: float = 0.0
    storage_gib: float = 0.0
    storage_usd_per_gib_month: float = DEFAULT_STORAGE_USD_PER_GIB_MONTH
    max_usd: float | None = None
    max_hours: float | None = None
    max_memory_gib: float | None = None

    def image_size_of(self, architecture: str, traced_sizes: Sequence[int] = ()) -> int:
        """Pixels that ``architecture`` is asked for: the query's, else the usual size."""
        if self.image_size is not None:
            return self.image_size
        return usual_image_size(architecture, traced_sizes)

    def training(self) -> Training:
        """What a training takes beyond its iterations."""
        return Training(
            epochs=self.epochs,
            interruption_percent=self.interruption_percent,
            start_minutes=self.start_minutes,
            storage_gib=self.storage_gib,
            storage_usd_per_gib_month=self.storage_usd_per_gib_month,
        )

    @property
    def interruption_percent(self) -> float:
        """The overhead of interruptions that is asked for, else what is usual for the price."""
        if self.interruption_overhead is not None:
            return self.interruption_overhead
        return SPOT_INTERRUPTION_PERCENT if self.price == "spot" else 0.0

    def parameters(self) -> list[tuple[str, str]]:
        """Names and values of the query string, in one fixed order, defaults left out."""
        pairs = [("architecture", slug) for slug in self.architectures]
        pairs += [("machine", slug) for slug in self.machines]
        pairs += [("device", slug) for slug in self.devices]
        pairs += [
            (option.name, option.write(getattr(self, option.name)))
            for option in SINGLE_OPTIONS
            if getattr(self, option.name) != option.default
        ]
        return pairs

    def to_query_string(self) -> str:
        """The query as a URL carries it; :func:`parse_query` turns it back into this query."""
        return urlencode(self.parameters(), safe=",")

    def to_json(self) -> dict[str, Any]:
        """The query with its defaults filled in, under the names of the query string."""
        values: dict[str, Any] = {
            "architecture": list(self.architectures),
            "machine": list(self.machines),
            "device": list(self.devices),
        }
        for option in SINGLE_OPTIONS:
            value = getattr(self, option.name)
            values[option.name] = list(value) if isinstance(value, tuple) else value
        values["optimizer"] = self.optimizer.value
        values["interruption_overhead"] = self.interruption_percent
        return values


@dataclass(frozen=True, slots=True)
class _Option:
    """An option with one value: how to read its text and how to write it again."""

    name: str
    default: Any
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    joins_repeats: bool = False


def parse_query(parameters: Mapping[str, Sequence[str]], choices: Choices) -> ForecastQuery:
    """Read a query from raw texts by name; empty texts count as not given.

    Raises :class:`QueryError` with one sentence per field that cannot be understood, that is
    out of bounds, or that names something unknown.
    """
    errors: dict[str, str] = {}
    given = _given_texts(parameters, errors)
    values: dict[str, Any] = {
        "architectures": _read_names(
            given,
            "architecture",
            "CNN",
            choices.image_sizes,
            MAX_ARCHITECTURES,
            errors,
            unlisted=choices.own_image_sizes,
        ),
        "machines": _read_names(given, "machine", "machine", choices.machines, MAX_PLACES, errors),
        "devices": _read_names(given, "device", "device", choices.devices, MAX_PLACES, errors),
    }
    for option in SINGLE_OPTIONS:
        values[option.name] = _read_single(given, option, errors)
    if "architecture" not in errors and not values["architectures"]:
        errors["architecture"] = "Choose at least one CNN, for example resnet50."
    if not errors.keys() & {"machine", "device"} and not (values["machines"] or values["devices"]):
        errors["machine"] = "Choose at least one machine (or a device), for example reference-cpu."
    _check_region(values, choices, errors)
    if not errors:
        _check_image_size(values, choices, errors)
        _check_row_count(values, errors)
    if errors:
        raise QueryError(errors)
    return ForecastQuery(**values)


def _given_texts(
    parameters: Mapping[str, Sequence[str]], errors: dict[str, str]
) -> dict[str, list[str]]:
    if sum(len(texts) for texts in parameters.values()) > MAX_VALUES:
        raise QueryError({"architecture": f"A query may hold at most {MAX_VALUES} values."})
    given: dict[str, list[str]] = {}
    for name, texts in parameters.items():
        if name not in OPTION_NAMES:
            # A stranger's parameter (a campaign tag in a shared link) is not an error; a typo is.
            close = difflib.get_close_matches(name.replace("-", "_"), OPTION_NAMES, 1, 0.75)
            if close:
                errors[name] = f"{quoted(name)} is not an option. Did you mean {close[0]}?"
            continue
        kept = [text.strip() for text in texts if text.strip()]
        if any(len(text) > MAX_TEXT_LENGTH for text in kept):
            errors[name] = f"{name} is too long: at most {MAX_TEXT_LENGTH} characters."
        elif kept:
            given[name] = kept
    return given


def _read_names(
    given: Mapping[str, list[str]],
    name: str,
    word: str,
    known: Iterable[str],
    limit: int,
    errors: dict[str, str],
    unlisted: Iterable[str] = (),
) -> tuple[str, ...]:
    slugs = tuple(dict.fromkeys(given.get(name, ())))
    if not slugs:
        return ()
    known = set(known)
    unknown = [slug for slug in slugs if slug not in known.union(unlisted)]
    if unknown:
        errors[name] = _unknown_name_sentence(unknown, name, word, known)
    elif len(slugs) > limit:
        errors[name] = f"At most {limit} {word}s fit in one query (got {len(slugs)})."
    return slugs


def _unknown_name_sentence(unknown: list[str], name: str, word: str, known: set[str]) -> str:
    if name == "architecture" and unknown[0].startswith(OWN_PREFIX):
        return (
            f"There is no private network {quoted(unknown[0])}: the link may be mistyped or "
            "deleted, or its 30 days are over."
        )
    if not known:
        return f"No {word} is loaded yet: run script/setup first."
    listed = ", ".join(quoted(slug) for slug in unknown[:3])
    more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
    hint = did_you_mean_sentence(unknown[0], known)
    if not hint:
        few = sorted(known)
        shown = ", ".join(few[:6])
        hint = f" Known: {shown}{f' and {len(few) - 6} more' if len(few) > 6 else ''}."
    return f"Unknown {word}{'s' if len(unknown) > 1 else ''} {listed}{more}.{hint}"


def _read_single(given: Mapping[str, list[str]], option: _Option, errors: dict[str, str]) -> Any:
    texts = given.get(option.name)
    if not texts:
        return option.default
    if option.joins_repeats:
        texts = [",".join(texts)]
    if len(set(texts)) > 1:
        errors[option.name] = f"Give {option.name} once (got {len(texts)} different values)."
        return option.default
    try:
        return option.read(texts[0])
    except ValueError as error:
        errors[option.name] = str(error)
        return option.default


def _check_region(values: Mapping[str, Any], choices: Choices, errors: dict[str, str]) -> None:
    region = values["region"]
    if region == DEFAULT_REGION or "region" in errors or region in choices.regions:
        return
    hint = did_you_mean_sentence(region, choices.regions)
    if not hint:
        known = ", ".join(sorted({*choices.regions, DEFAULT_REGION})[:8])
        hint = f" Known: {known}."
    errors["region"] = f"No price is known for region {quoted(region)}.{hint}"


def _check_image_size(values: Mapping[str, Any], choices: Choices, errors: dict[str, str]) -> None:
    size = values["image_size"]
    if size is None:
        return
    traced = {slug: choices.sizes_of(slug) for slug in values["architectures"]}
    if any(size in sizes for sizes in traced.values()):
        return
    known = "; ".join(
        f"{slug} at {', '.join(map(str, sorted(sizes)))} px"
        for slug, sizes in list(traced.items())[:2]
    )
    errors["image_size"] = f"No layers are known at {size} px. Known: {known}."


def _check_row_count(values: Mapping[str, Any], errors: dict[str, str]) -> None:
    sizes = len(values["batch_sizes"] or BATCH_SIZE_LADDER)
    places = len(values["machines"]) + len(values["devices"])
    rows = len(values["architectures"]) * places * sizes
    if rows > MAX_ROWS:
        errors["batch_sizes"] = (
            f"{len(values['architectures'])} CNNs x {places} machines x {sizes} batch sizes are "
            f"{rows:,} rows; at most {MAX_ROWS:,} fit in one query. Ask for fewer of them."
        )


def _read_optimizer(text: str) -> Optimizer:
    return Optimizer(one_of("optimizer", OPTIMIZERS)(text))


def _read_batch_sizes(text: str) -> tuple[int, ...]:
    return parse_batch_sizes(text, largest=MAX_BATCH_SIZE, most=MAX_BATCH_SIZES)


SINGLE_OPTIONS = (
    _Option("batch_sizes", None, _read_batch_sizes, format_batch_sizes, joins_repeats=True),
    _Option("examples", DEFAULT_EXAMPLES, whole_number("examples", MAX_EXAMPLES)),
    _Option("epochs", DEFAULT_EPOCHS, whole_number("epochs", MAX_EPOCHS)),
    _Option("precision", DEFAULT_PRECISION, one_of("precision", PRECISIONS)),
    _Option("image_size", None, whole_number("image size", MAX_IMAGE_SIZE)),
    _Option("price", DEFAULT_PRICE_KIND, one_of("price kind", PRICE_KINDS)),
    _Option("region", DEFAULT_REGION, read_region),
    _Option("optimizer", Optimizer.SGD, _read_optimizer),
    _Option(
        "loader_images_per_second",
        None,
        # Below a picture in a quarter of an hour it is a slip of the pen.
        number_from("The input pipeline's rate", "images per second", 0.001, 10_000_000),
        write_number,
    ),
    _Option(
        "interruption_overhead",
        None,
        number_from("The overhead of interruptions", "percent", 0, 1_000),
        write_number,
    ),
    _Option(
        "start_minutes", 0.0, number_from("The time to start", "minutes", 0, 1_440), write_number
    ),
    _Option("storage_gib", 0.0, number_from("Storage", "GiB", 0, 1_000_000), write_number),
    _Option(
        "storage_usd_per_gib_month",
        DEFAULT_STORAGE_USD_PER_GIB_MONTH,
        number_from("The price of storage", "US dollars per GiB-month", 0, 1_000),
        write_number,
    ),
    _Option("max_usd", None, number_above("The cost limit", "US dollars", 1e9), write_number),
    _Option("max_hours", None, number_above("The time limit", "hours", 1e7), write_number),
    _Option("max_memory_gib", None, number_above("The memory limit", "GiB", 100_000), write_number),
)
OPTION_NAMES = ("architecture", "machine", "device", *(option.name for option in SINGLE_OPTIONS))
