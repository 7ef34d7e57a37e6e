"""The software stack that a machine will be measured with, before anybody has looked at it."""

from __future__ import annotations

from benchmarking.models import Machine, MeasurementRun
from benchmarking.probe.plan import StackRequest
from benchmarking.specs import Engine, StackSpec

UNKNOWN_VERSION = ""


def expected_stack(
    machine: Machine, request: StackRequest, engine: Engine = Engine.TORCH
) -> StackSpec:
    """The stack of the newest run on ``machine``, else on its device, as ``request`` asks.

    Where nothing was measured so, the version is unknown. No timing has an unknown version, so a
    plan for such a stack finds everything missing that no other job is about to measure.
    """
    runs = MeasurementRun.objects.filter(
        stack__engine=engine.value,
        stack__precision=request.precision.value,
        stack__memory_format=request.memory_format,
        stack__cudnn_benchmark=request.cudnn_benchmark,
        stack__threads=request.threads,
    ).select_related("stack")
    newest = (
        runs.filter(machine=machine).order_by("-started_at").first()
        or runs.filter(machine__device=machine.device_id).order_by("-started_at").first()
    )
    if newest is not None:
        return newest.stack.to_spec()
    return StackSpec(
        engine=engine,
        framework_version=UNKNOWN_VERSION,
        precision=request.precision,
        memory_format=request.memory_format,
        cudnn_benchmark=request.cudnn_benchmark,
        threads=request.threads,
    )
