"""What an operator asks to have measured, read from one query string by the page and the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from benchmarking.batch_sizes import parse_batch_sizes
from benchmarking.jobs.proposal import (
    MAXIMUM_HOURS,
    MAXIMUM_ROUNDS,
    MAXIMUM_USD,
    HostKind,
    JobRequest,
    JobRequestError,
    default_host_kind,
    find_remote_host,
)
from benchmarking.jobs.provenance import ProvenanceError, find_machine
from benchmarking.jobs.selection import SelectionError, select_architectures
from benchmarking.models import Architecture, Machine, Price, RemoteHost
from benchmarking.probe.checked_fields import without_unstorable
from benchmarking.specs import Engine, Precision
from benchmarking.suggestions import did_you_mean_sentence, quoted
from predictions.option_readers import number_above, one_of, whole_number
from predictions.query import (
    DEFAULT_PRECISION,
    MAX_ARCHITECTURES,
    MAX_BATCH_SIZE,
    MAX_BATCH_SIZES,
    MAX_IMAGE_SIZE,
    MAX_TEXT_LENGTH,
    OPTION_NAMES,
    PRECISIONS,
    PRICE_KINDS,
    QueryError,
)

HOST_KINDS = tuple(kind.value for kind in HostKind)
ENGINES = tuple(engine.value for engine in Engine)

_READERS: Mapping[str, Callable[[str], Any]] = {
    "image_size": whole_number("image size", MAX_IMAGE_SIZE),
    "batch_sizes": lambda text: parse_batch_sizes(
        text, largest=MAX_BATCH_SIZE, most=MAX_BATCH_SIZES
    ),
    "precision": one_of("precision", PRECISIONS),
    "engine": one_of("engine", ENGINES),
    "rounds": whole_number("the number of rounds", MAXIMUM_ROUNDS),
    "host": one_of("host", HOST_KINDS),
    "remote_host": str,
    "price": one_of("price kind", PRICE_KINDS),
    "max_usd": number_above("The cost limit", "US dollars", MAXIMUM_USD),
    "max_hours": number_above("The time limit", "hours", MAXIMUM_HOURS),
}
JOB_OPTION_NAMES = ("machine", "architecture", *_READERS)
# A link from the forecast page carries its own options along; a slip in one of ours is refused,
# for a limit that is not read would be no limit.
_IGNORED_NAMES = frozenset(OPTION_NAMES) - frozenset(JOB_OPTION_NAMES)


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A request and the names and texts that it was read from, in one fixed order."""

    request: JobRequest
    parameters: tuple[tuple[str, str], ...]

    def to_query_string(self) -> str:
        """The query as a URL carries it."""
        return urlencode(self.parameters, safe=",")


def parse_job_query(parameters: Mapping[str, Sequence[str]]) -> JobQuery:
    """Read a request from raw texts by name; empty texts count as not given.

    An empty list asks for nothing, and is never taken for everything.

    Raises :class:`QueryError` with one sentence per field that cannot be understood, that is out
    of bounds, or that names something unknown.
    """
    errors: dict[str, str] = {}
    given = _given_texts(parameters, errors)
    values = {
        name: value
        for name, read in _READERS.items()
        if (value := _read_one(given, name, read, errors)) is not None
    }
    machine = _read_machine(given, errors)
    architectures = _read_architectures(given, values.get("image_size"), errors)
    if machine is None or errors:
        raise QueryError(errors)
    remote_hosts = list(machine.remote_hosts.filter(is_enabled=True))
    host_kind = HostKind(values.get("host") or default_host_kind(machine, remote_hosts))
    precision = values.get("precision", DEFAULT_PRECISION)
    request = JobRequest(
        machine=machine,
        architectures=architectures,
        host_kind=host_kind,
        remote_host=_read_remote_host(machine, host_kind, values.get("remote_host", "")),
        price_kind=Price.Kind(values.get("price", Price.Kind.ON_DEMAND.value)),
        batch_sizes=values.get("batch_sizes"),
        precision=None if precision == DEFAULT_PRECISION else Precision(precision),
        rounds=values.get("rounds", 1),
        engine=Engine(values.get("engine", Engine.TORCH.value)),
        maximum_hours=values.get("max_hours"),
        maximum_usd=Decimal(str(values["max_usd"])) if "max_usd" in values else None,
    )
    given["host"] = [host_kind.value]
    pairs = [(name, text) for name in JOB_OPTION_NAMES for text in given.get(name, ())]
    return JobQuery(request, tuple(pairs))


def _given_texts(
    parameters: Mapping[str, Sequence[str]], errors: dict[str, str]
) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    for name, texts in parameters.items():
        kept = [text.strip() for text in texts if text.strip()]
        if name in _IGNORED_NAMES:
            continue
        if name not in JOB_OPTION_NAMES:
            hint = did_you_mean_sentence(name, JOB_OPTION_NAMES)
            errors[without_unstorable(name)[:60]] = f"There is no option {quoted(name)}.{hint}"
        elif any(len(text) > MAX_TEXT_LENGTH or without_unstorable(text) != text for text in kept):
            errors[name] = f"{name} is plain text of at most {MAX_TEXT_LENGTH} characters."
        elif name == "architecture" and not kept:
            errors[name] = "Name at least one CNN, or leave architecture out for every known one."
        elif not texts and name != "machine":
            errors[name] = f"An empty list asks for nothing: leave {name} out for the usual."
        elif kept:
            given[name] = list(dict.fromkeys(kept))
    return given


def _read_one(
    given: Mapping[str, list[str]], name: str, read: Callable[[str], Any], errors: dict[str, str]
) -> Any:
    texts = given.get(name)
    if not texts:
        return None
    if len(texts) > 1:
        errors[name] = f"Give {name} once (got {len(texts)} different values)."
        return None
    try:
        return read(texts[0])
    except ValueError as error:
        errors[name] = str(error)
        return None


def _read_machine(given: Mapping[str, list[str]], errors: dict[str, str]) -> Machine | None:
    texts = given.get("machine", [])
    if len(texts) != 1:
        errors.setdefault("machine", "Choose one machine, for example aws-g4dn.xlarge.")
        return None
    try:
        return find_machine(texts[0])
    except ProvenanceError as error:
        errors["machine"] = _as_sentence(error)
        return None


def _read_architectures(
    given: Mapping[str, list[str]], image_size: int | None, errors: dict[str, str]
) -> tuple[Architecture, ...]:
    names = given.get("architecture", [])
    if len(names) > MAX_ARCHITECTURES:
        errors["architecture"] = f"At most {MAX_ARCHITECTURES} CNNs fit in one job."
        return ()
    if errors.keys() & {"architecture", "image_size"}:
        return ()
    try:
        return tuple(select_architectures(names, image_size))
    except SelectionError as error:
        errors["architecture"] = _as_sentence(error)
        return ()


def _read_remote_host(machine: Machine, host_kind: HostKind, name: str) -> RemoteHost | None:
    if host_kind != HostKind.SSH:
        if name:
            # Whoever names a computer of their own does not want another one rented.
            raise QueryError({"remote_host": "A remote host goes with host ssh alone."})
        return None
    try:
        return find_remote_host(machine, name)
    except JobRequestError as error:
        raise QueryError({error.field: str(error)}) from error


def _as_sentence(error: ValueError) -> str:
    text = str(error)
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
