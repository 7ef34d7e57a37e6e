"""The options of ``benchmark``: what is allowed, and one line for what is not."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import CommandError, CommandParser

from benchmarking.batch_sizes import BatchSizesError, parse_batch_sizes
from benchmarking.jobs.proposal import (
    MAXIMUM_HOURS,
    MAXIMUM_ROUNDS,
    MAXIMUM_USD,
    HostKind,
    JobRequest,
    JobRequestError,
    find_remote_host,
)
from benchmarking.jobs.provenance import ProvenanceError, find_machine
from benchmarking.jobs.selection import SelectionError, select_architectures
from benchmarking.models import Price
from benchmarking.specs import Engine, Precision


def add_benchmark_arguments(parser: CommandParser) -> None:
    """Every option, with what it means."""
    parser.add_argument(
        "--machine", required=True, metavar="SLUG", help="'local' is this computer."
    )
    parser.add_argument(
        "--architectures",
        action="append",
        default=[],
        metavar="A,B",
        help="Names, separated by commas or repeated; by default every known CNN.",
    )
    parser.add_argument("--batch-sizes", metavar="1-16 or 8,16,32")
    parser.add_argument("--image-size", type=int, metavar="PIXELS")
    parser.add_argument(
        "--precision", choices=[p.value for p in Precision], help="By default the device's own."
    )
    parser.add_argument("--rounds", type=int, default=1, metavar="N")
    parser.add_argument(
        "--engine",
        choices=[e.value for e in Engine],
        default=Engine.TORCH.value,
        help="dnnmark times convolution layers only, in fp32, where the machine has it built.",
    )
    parser.add_argument(
        "--host",
        choices=[kind.value for kind in HostKind],
        default=HostKind.LOCAL.value,
        help="Where the machine is: this computer (the default), a computer of one's own that "
        "the admin lists under remote hosts, or a machine rented from Amazon EC2.",
    )
    parser.add_argument(
        "--remote-host", metavar="NAME", help="With --host ssh, where several are the machine."
    )
    parser.add_argument(
        "--price",
        choices=[kind.value for kind in Price.Kind],
        default=Price.Kind.ON_DEMAND.value,
        help="With --host ec2: how it is rented.",
    )
    parser.add_argument(
        "--max-usd", metavar="USD", help="With --host ec2: the job ends before it costs more."
    )
    parser.add_argument("--max-hours", type=float, metavar="HOURS")
    parser.add_argument("--dry-run", action="store_true", help="Print the plan and stop.")
    watching = parser.add_mutually_exclusive_group()
    watching.add_argument(
        "--detach",
        action="store_true",
        help="Leave the job to the Celery worker, as is the default with --host ssh and ec2.",
    )
    watching.add_argument(
        "--follow",
        action="store_true",
        help="Advance the job from here and show its progress, as is the default otherwise.",
    )
    parser.add_argument(
        "--yes", action="store_true", help="Do not ask before a long job or one that is paid for."
    )


def read_request(options: dict[str, Any]) -> JobRequest:
    """The request that the options make; raises ``CommandError`` that says what is allowed."""
    batch_sizes = _check_numbers(options)
    maximum_usd = _read_usd(options["max_usd"])
    names = _split_names(options["architectures"])
    if options["architectures"] and not names:
        # An empty variable of a script must not measure everything.
        raise CommandError(
            "--architectures names CNNs, separated by commas; leave it out for all of them.",
            returncode=2,
        )
    host_kind = HostKind(options["host"])
    try:
        machine = find_machine(options["machine"])
        architectures = select_architectures(names, options["image_size"])
        remote_host = (
            find_remote_host(machine, options["remote_host"] or "")
            if host_kind == HostKind.SSH
            else None
        )
    except (ProvenanceError, SelectionError, JobRequestError) as error:
        raise CommandError(str(error), returncode=2) from error
    if options["remote_host"] and host_kind != HostKind.SSH:
        raise CommandError("--remote-host goes with --host ssh.", returncode=2)
    return JobRequest(
        machine=machine,
        architectures=tuple(architectures),
        host_kind=host_kind,
        remote_host=remote_host,
        price_kind=Price.Kind(options["price"]),
        batch_sizes=batch_sizes,
        precision=Precision(options["precision"]) if options["precision"] else None,
        rounds=options["rounds"],
        engine=Engine(options["engine"]),
        maximum_hours=options["max_hours"],
        maximum_usd=maximum_usd,
    )


def _check_numbers(options: dict[str, Any]) -> tuple[int, ...] | None:
    if not 1 <= options["rounds"] <= MAXIMUM_ROUNDS:
        raise CommandError(f"--rounds is from 1 to {MAXIMUM_ROUNDS}.", returncode=2)
    hours = options["max_hours"]
    if hours is not None and not 0 < hours <= MAXIMUM_HOURS:
        raise CommandError(f"--max-hours is above 0 and at most {MAXIMUM_HOURS:g}.", returncode=2)
    if options["batch_sizes"] is None:
        return None
    try:
        return parse_batch_sizes(options["batch_sizes"])
    except BatchSizesError as error:
        raise CommandError(str(error), returncode=2) from error


def _read_usd(text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        usd = Decimal(text)
    except InvalidOperation:
        usd = Decimal(0)
    if not (usd.is_finite() and 0 < usd <= MAXIMUM_USD):
        raise CommandError(f"--max-usd is above 0 and at most {MAXIMUM_USD:.0f}.", returncode=2)
    return usd


def _split_names(values: Sequence[str]) -> list[str]:
    names = [name.strip() for value in values for name in value.split(",")]
    return list(dict.fromkeys(name for name in names if name))
