"""Work that one job is to measure is measured by no other job meanwhile.

A claim stands from the transaction that makes the job to the one that ends it. Of two jobs made
at the same moment the database lets one have each piece, and the other is made of what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarking.models import BenchmarkJob, WorkClaim
from benchmarking.probe.plan import ConvolutionWork, StackRequest, Work

_BATCH_ROWS = 5000


def claim_work(job: BenchmarkJob, work: Sequence[Work], stack: StackRequest) -> list[Work]:
    """Claim all of ``work`` that nobody has claimed, and return that, in its order.

    A convolution keeps those of its passes that are the job's own.
    """
    keys_of_items = [_keys(job, item, stack) for item in work]
    # Sorted, so that two jobs that claim the same wait for each other and never in a circle.
    wanted = sorted({key for keys in keys_of_items for key in keys})
    WorkClaim.objects.bulk_create(
        (WorkClaim(job=job, key=key) for key in wanted),
        ignore_conflicts=True,
        batch_size=_BATCH_ROWS,
    )
    won = set(WorkClaim.objects.filter(job=job).values_list("key", flat=True))
    claimed: list[Work] = []
    for item, keys in zip(work, keys_of_items):
        if isinstance(item, ConvolutionWork):
            passes = tuple(operation for operation, key in zip(item.passes, keys) if key in won)
            if passes:
                claimed.append(item if passes == item.passes else replace(item, passes=passes))
        elif keys[0] in won:
            claimed.append(item)
    return claimed


def release_claims(job: BenchmarkJob) -> None:
    """Let others measure what this job has not."""
    WorkClaim.objects.filter(job=job).delete()


def _keys(job: BenchmarkJob, item: Work, stack: StackRequest) -> list[str]:
    """One key for each timing; layers are shared by machines that have the same device."""
    stack_words: Iterable[object] = (
        stack.engine.value,
        stack.precision.value,
        stack.memory_format,
        "benchmark" if stack.cudnn_benchmark else "heuristics",
        stack.threads,
    )
    prefix = " ".join(str(word) for word in stack_words)
    if isinstance(item, ConvolutionWork):
        place = f"{job.machine.device.slug} {prefix} {item.layer.key} x{item.batch_size}"
        return [f"{place} {operation.value} round {item.round}" for operation in item.passes]
    network = f"{item.architecture} {item.image_size}px x{item.batch_size}"
    return [f"{job.machine.slug} {prefix} {network} {item.optimizer.value} round {item.round}"]
