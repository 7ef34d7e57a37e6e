"""Whether timings may be stored for a machine: only what was taken on its device, and says so."""

from __future__ import annotations

from fnmatch import fnmatchcase

from benchmarking.models import Device, Machine, MeasurementRun
from benchmarking.probe.checked_fields import without_unstorable
from benchmarking.probe.results import EnvironmentLine
from benchmarking.specs import StackSpec
from benchmarking.suggestions import did_you_mean, quoted

REFERENCE_PROVIDER = "reference"


class ProvenanceError(ValueError):
    """These timings are not of this machine; the message is one sentence for the operator."""


def find_machine(slug: str) -> Machine:
    """The machine called ``slug``; raises ``ProvenanceError`` that suggests one otherwise."""
    # A terminal's stray bytes are no name, and no database can be asked for them.
    if without_unstorable(slug) == slug:
        machine = Machine.objects.select_related("device").filter(slug=slug).first()
        if machine is not None:
            return machine
    if not slug:
        raise ProvenanceError("no machine is named; /machines/ and the admin list the known ones")
    known = Machine.objects.values_list("slug", flat=True)
    hint = did_you_mean(slug, known) or "; /machines/ and the admin list the known ones"
    raise ProvenanceError(f"unknown machine {quoted(slug)}{hint}")


def check_provenance(machine: Machine, environment: EnvironmentLine) -> None:
    """Raise ``ProvenanceError`` unless ``environment`` can be that of ``machine``.

    A CPU that no timing has pinned yet is accepted; see :func:`pin_cpu`.
    """
    if machine.device.kind == Device.Kind.CPU:
        check_cpu(
            machine,
            model=environment.cpu_model,
            signature=environment.cpu_signature,
            gpu_name=environment.gpu_name,
        )
    else:
        check_gpu(machine, environment.gpu_name)
    check_pinned_stack(machine, environment.stack)


def check_cpu(machine: Machine, *, model: str, signature: str, gpu_name: str | None = None) -> None:
    """Raise ``ProvenanceError`` unless the CPU is the one that ``machine`` is pinned to."""
    device = machine.device
    if gpu_name is not None:
        raise ProvenanceError(
            f"{machine.slug} is measured on its CPU; these timings were taken on a {gpu_name}"
        )
    pinned = (device.reported_name, device.cpu_signature)
    if any(pinned) and pinned != (model, signature):
        raise ProvenanceError(
            f"{machine.slug} is pinned to the CPU {device.reported_name} "
            f"({device.cpu_signature}); this one is {model} ({signature})"
            + ("; use --machine local here" if machine.slug != "local" else "")
        )


def check_gpu(machine: Machine, gpu_name: str | None) -> None:
    """Raise ``ProvenanceError`` unless ``gpu_name`` is how the device of ``machine`` reports.

    ``Device.reported_name`` holds one or more names, separated by ``|``; ``*`` stands for any text.
    """
    device = machine.device
    if gpu_name is None:
        raise ProvenanceError(
            f"{machine.slug} has a {device.name}; these timings were taken on a CPU"
        )
    patterns = [name.strip() for name in device.reported_name.split("|") if name.strip()]
    if not patterns:
        raise ProvenanceError(
            f"the catalogue does not say how a {device.name} reports itself; "
            f"enter {gpu_name!r} as its reported name if that is what it is"
        )
    if not any(fnmatchcase(gpu_name.lower(), pattern.lower()) for pattern in patterns):
        raise ProvenanceError(
            f"{machine.slug} has a {device.name} (reported as {' or '.join(patterns)}); "
            f"this device is a {gpu_name[:200]}"
        )


def check_pinned_stack(machine: Machine, stack: StackSpec) -> None:
    """Raise ``ProvenanceError`` for a second software stack on a reference machine."""
    if machine.provider != REFERENCE_PROVIDER:
        return
    first_run = (
        MeasurementRun.objects.filter(machine=machine)
        .select_related("stack")
        .order_by("started_at")
        .first()
    )
    if first_run is not None and first_run.stack.to_spec() != stack:
        raise ProvenanceError(
            f"{machine.slug} is pinned to the stack {first_run.stack}; this one is {stack.label}"
        )


def pin_cpu(device: Device, environment: EnvironmentLine) -> None:
    """Let the first timings of a CPU say which it is and how much memory it has.

    Only empty fields are filled, so a second call changes nothing.
    """
    if device.kind != Device.Kind.CPU:
        return
    found = {
        "reported_name": environment.cpu_model,
        "cpu_signature": environment.cpu_signature,
        "memory_mib": environment.cpu_memory_mib,
        "usable_memory_mib": environment.cpu_memory_mib,
    }
    empty = {
        name: value
        for name, value in found.items()
        if value is not None and getattr(device, name) in (None, "")
    }
    if not empty:
        return
    for name, value in empty.items():
        setattr(device, name, value)
    device.save(update_fields=list(empty))
