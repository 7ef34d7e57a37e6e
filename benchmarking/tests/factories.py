"""Builders of real rows for the tests of every floor; keyword arguments override any field.

Each builder saves and returns its row; what it needs and was not given it builds as well.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from benchmarking.models import (
    Architecture,
    ArchitectureLayer,
    BenchmarkJob,
    CloudInstance,
    ConvolutionLayer,
    Device,
    FailedTiming,
    IterationTiming,
    LayerTiming,
    Machine,
    MeasurementRun,
    Price,
    RemoteHost,
    SoftwareStack,
)
from benchmarking.specs import ConvolutionSpec, ConvolutionUse, Optimizer, Pass, summarize_samples

_numbers = itertools.count(1)

FIRST_LAYER = ConvolutionSpec(3, 32, 32, 8, 3, 3, 2, 2, 1, 1)
MIDDLE_LAYER = ConvolutionSpec(8, 16, 16, 16, 3, 3, 1, 1, 1, 1)
DEPTHWISE_LAYER = ConvolutionSpec(16, 16, 16, 16, 3, 3, 1, 1, 1, 1, groups=16, bias=True)
TINY_USES = (
    ConvolutionUse(FIRST_LAYER, count=1, needs_input_gradient=False),
    ConvolutionUse(MIDDLE_LAYER, count=2),
    ConvolutionUse(DEPTHWISE_LAYER, count=1),
)
TINY_OPERATIONS = [
    ["convolution", "forward", 4, 60_000.0, 5_000.0, 600_000.0],
    ["convolution_backward", "backward", 4, 120_000.0, 10_000.0, 1_200_000.0],
    ["relu_", "forward", 4, 40_000.0, 0.0, 0.0],
    ["threshold_backward", "backward", 4, 60_000.0, 0.0, 0.0],
    ["native_batch_norm", "forward", 3, 80_000.0, 400.0, 0.0],
    ["native_batch_norm_backward", "backward", 3, 120_000.0, 600.0, 0.0],
    ["addmm", "forward", 1, 4_500.0, 64_000.0, 16_000.0],
    ["_foreach_add_", "optimizer", 1, 0.0, 90_000.0, 0.0],
]


def create_device(**values: Any) -> Device:
    """A CUDA GPU; ``kind="cpu"`` gives a CPU."""
    is_cpu = values.get("kind") == Device.Kind.CPU
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "slug": f"test-cpu-{number}" if is_cpu else f"test-gpu-{number}",
        "name": f"Test device {number}",
        "kind": Device.Kind.CUDA,
        "memory_mib": 16384.0,
        "usable_memory_mib": 15000.0,
        "fp32_tflops": 0.1 if is_cpu else 10.0,
        "bandwidth_gb_s": 20.0 if is_cpu else 500.0,
        "multiprocessors": None if is_cpu else 40,
        "compute_capability": None if is_cpu else 7.5,
    }
    return Device.objects.create(**{**defaults, **values})


def create_machine(*, device: Device | None = None, **values: Any) -> Machine:
    """A rentable machine of one device."""
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "slug": f"aws-test.{number}xlarge",
        "provider": "aws",
        "instance_type": f"test.{number}xlarge",
        "region": "us-east-1",
    }
    return Machine.objects.create(device=device or create_device(), **{**defaults, **values})


def create_cpu_machine(*, slug: str = "local", **device_values: Any) -> Machine:
    """A machine whose device is a CPU, by default the one that the commands call ``local``."""
    defaults = {"slug": f"{slug}-cpu", "kind": Device.Kind.CPU}
    return create_machine(
        slug=slug,
        provider=slug,
        instance_type="",
        device=create_device(**{**defaults, **device_values}),
    )


def create_price(
    *, machine: Machine, usd_per_hour: str | Decimal = "1.000000", **values: Any
) -> Price:
    """A dated price on demand."""
    defaults: dict[str, Any] = {
        "kind": Price.Kind.ON_DEMAND,
        "region": "us-east-1",
        "as_of": "2026-01-01",
        "source": f"test price list {next(_numbers)}",
    }
    return Price.objects.create(
        machine=machine, usd_per_hour=Decimal(usd_per_hour), **{**defaults, **values}
    )


def create_layer(spec: ConvolutionSpec = MIDDLE_LAYER) -> ConvolutionLayer:
    """The layer of ``spec``, shared with every architecture that already has it."""
    return _create_layers({spec.key: spec})[spec.key]


def _create_layers(specs: Mapping[str, ConvolutionSpec]) -> dict[str, ConvolutionLayer]:
    """The layers of ``specs`` by key, made where there are none, in two queries at most."""
    layers = {layer.key: layer for layer in ConvolutionLayer.objects.filter(key__in=specs)}
    missing = [ConvolutionLayer.from_spec(spec) for key, spec in specs.items() if key not in layers]
    if missing:
        layers |= {layer.key: layer for layer in ConvolutionLayer.objects.bulk_create(missing)}
    return layers


def create_architecture(
    *, uses: Sequence[ConvolutionUse] = TINY_USES, **values: Any
) -> Architecture:
    """A small CNN whose layers are ``uses``, in this order."""
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "slug": f"tinynet{number}",
        "image_size": 32,
        "family": "tinynet",
        "parameters": 30_000,
        "parameter_tensors": 20,
        "multiply_adds": sum(use.count * use.layer.multiply_adds for use in uses),
        "saved_bytes_per_example": 200_000.0,
        "saved_bytes_fixed": 1_000.0,
        "saved_bytes_amp_per_example": 120_000.0,
        "saved_bytes_amp_fixed": 1_000.0,
        "operations": TINY_OPERATIONS,
    }
    architecture = Architecture.objects.create(**{**defaults, **values})
    layers = _create_layers({use.layer.key: use.layer for use in uses})
    ArchitectureLayer.objects.bulk_create(
        ArchitectureLayer(
            architecture=architecture,
            layer=layers[use.layer.key],
            position=position,
            count=use.count,
            needs_input_gradient=use.needs_input_gradient,
        )
        for position, use in enumerate(uses)
    )
    return architecture


def create_stack(**values: Any) -> SoftwareStack:
    """The stack of ``values``; asking twice for the same gives the same row."""
    defaults: dict[str, Any] = {
        "engine": "torch",
        "framework_version": "2.14.1",
        "precision": "fp32",
        "cuda_version": "",
        "cudnn_version": "",
        "memory_format": "contiguous",
        "cudnn_benchmark": False,
        "threads": 1,
    }
    stack, _ = SoftwareStack.objects.get_or_create(**{**defaults, **values})
    return stack


def environment_line(**values: Any) -> dict[str, Any]:
    """What a probe on one CPU thread prints first."""
    defaults: dict[str, Any] = {
        "type": "environment",
        "schema": 1,
        "run_id": str(uuid.uuid4()),
        "started_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).isoformat(),
        "probe_sha256": "0" * 64,
        "machine": "local",
        "stack": {
            "engine": "torch",
            "framework_version": "2.14.1",
            "precision": "fp32",
            "cuda_version": "",
            "cudnn_version": "",
            "memory_format": "contiguous",
            "cudnn_benchmark": False,
            "threads": 1,
        },
        "cpu": {"model": "Test CPU", "signature": "6-1-1", "memory_mib": 8192},
        "load_average": [0.1, 0.1, 0.1],
        "sampling": {},
        "gpu": None,
        "elapsed_seconds": 0.5,
    }
    return {**defaults, **values}


def create_run(
    *, machine: Machine | None = None, stack: SoftwareStack | None = None, **values: Any
) -> MeasurementRun:
    """One process of the probe on ``machine``."""
    defaults: dict[str, Any] = {"started_at": timezone.now(), "environment": environment_line()}
    return MeasurementRun.objects.create(
        machine=machine or create_machine(),
        stack=stack or create_stack(),
        **{**defaults, **values},
    )


def create_layer_timing(
    *,
    run: MeasurementRun,
    layer: ConvolutionLayer,
    batch_size: int = 1,
    operation: Pass = Pass.FORWARD,
    samples_ms: Sequence[float] = (1.0, 1.0, 1.2),
    **values: Any,
) -> LayerTiming:
    """The time of one pass; its milliseconds are those of the samples."""
    return LayerTiming.objects.create(
        run=run,
        layer=layer,
        batch_size=batch_size,
        operation=operation.value,
        samples_ms=list(samples_ms),
        milliseconds=summarize_samples(list(samples_ms)),
        **values,
    )


def create_iteration_timing(
    *,
    run: MeasurementRun,
    architecture: Architecture,
    batch_size: int = 1,
    optimizer: Optimizer = Optimizer.SGD,
    samples_ms: Sequence[float] = (10.0, 10.0, 12.0),
    **values: Any,
) -> IterationTiming:
    """The time of one training iteration; its milliseconds are those of the samples."""
    return IterationTiming.objects.create(
        run=run,
        architecture=architecture,
        batch_size=batch_size,
        optimizer=optimizer.value,
        samples_ms=list(samples_ms),
        milliseconds=summarize_samples(list(samples_ms)),
        **values,
    )


def create_failed_timing(
    *, run: MeasurementRun, batch_size: int = 1, **values: Any
) -> FailedTiming:
    """Work that gave no timing; needs ``layer`` or ``architecture``."""
    defaults = {"kind": FailedTiming.Kind.OUT_OF_MEMORY, "message": "out of memory"}
    return FailedTiming.objects.create(run=run, batch_size=batch_size, **{**defaults, **values})


def create_timings(
    *,
    run: MeasurementRun,
    architecture: Architecture,
    batch_sizes: Iterable[int] = (1, 2, 4),
    layer_ms_per_example: float = 1.0,
    remainder_ms_per_example: float = 0.5,
    round: int = 1,
) -> None:
    """Every pass of every layer, and the whole iteration, at each batch size.

    A pass takes ``layer_ms_per_example`` x batch size, and the iteration the sum over the
    layers plus ``remainder_ms_per_example`` x batch size, so that a test knows the answers.
    """
    passes: dict[ConvolutionLayer, dict[Pass, int]] = {}
    for use in architecture.uses.select_related("layer"):
        counts = passes.setdefault(use.layer, {})
        for operation in use.to_spec().passes:
            counts[operation] = counts.get(operation, 0) + use.count
    for batch_size in batch_sizes:
        layer_ms = layer_ms_per_example * batch_size
        LayerTiming.objects.bulk_create(
            (
                LayerTiming(
                    run=run,
                    layer=layer,
                    batch_size=batch_size,
                    operation=operation.value,
                    samples_ms=[layer_ms],
                    milliseconds=layer_ms,
                    round=round,
                )
                for layer, counts in passes.items()
                for operation in counts
            ),
            # Another architecture of the same run may have had the same layer timed.
            ignore_conflicts=True,
        )
        runs_of_passes = sum(sum(counts.values()) for counts in passes.values())
        total_ms = runs_of_passes * layer_ms + remainder_ms_per_example * batch_size
        create_iteration_timing(
            run=run,
            architecture=architecture,
            batch_size=batch_size,
            samples_ms=[total_ms],
            round=round,
        )


def create_job(*, machine: Machine | None = None, **values: Any) -> BenchmarkJob:
    """A queued job without work, due now."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "plan": {"schema": 1, "work": []},
        "planned_count": 0,
        "expected_seconds": 0.0,
        "due_at": now,
        "deadline": now + timedelta(hours=1),
    }
    return BenchmarkJob.objects.create(
        machine=machine or create_cpu_machine(), **{**defaults, **values}
    )


def create_remote_host(machine: Machine, **values: Any) -> RemoteHost:
    """A host of one's own that is such a machine; nothing answers there."""
    defaults: dict[str, Any] = {
        "name": f"workstation-{next(_numbers)}",
        "address": "127.0.0.1",
        "user": "ann",
        "host_public_key": "ssh-ed25519 AAAA",
        "login_key": b"",
    }
    return RemoteHost.objects.create(machine=machine, **{**defaults, **values})


def create_instance(*, job: BenchmarkJob | None = None, **values: Any) -> CloudInstance:
    """A running instance of a job on EC2, launched now for 1 USD an hour and 2 hours at most."""
    now = timezone.now()
    job = job or create_job(machine=create_machine(), host_kind=BenchmarkJob.HostKind.EC2)
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "attempt": job.instances.count() + 1,
        "state": CloudInstance.State.RUNNING,
        "region": "us-east-1",
        "zone": "us-east-1a",
        "instance_type": job.machine.instance_type,
        "client_token": f"token-{number}",
        "request": {},
        "user_data_sha256": "0" * 64,
        "instance_id": f"i-{number:017x}",
        "usd_per_hour": Decimal(1),
        "reserved_usd": Decimal(2),
        "intended_at": now,
        "launched_at": now,
        "expires_at": now + timedelta(hours=2),
    }
    return CloudInstance.objects.create(job=job, **{**defaults, **values})
