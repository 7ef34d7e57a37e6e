"""Which software stack and which trained model answer for a machine; stacks are never mixed."""

from __future__ import annotations

from django.db.models import Count, Exists, Max, OuterRef, Q

from benchmarking.models import Device, IterationTiming, Machine, SoftwareStack
from benchmarking.specs import Precision
from regression.models import TrainedModel


def choose_stack(
    *, device: Device, machine: Machine | None, precision: Precision
) -> SoftwareStack | None:
    """The one stack whose timings answer for a device, or ``None`` where nothing was timed.

    Whole iterations on this machine count most, then a trained model for it or its device, then
    how recent the timings are.
    """
    trained = TrainedModel.objects.filter(stack=OuterRef("pk"), device=device, is_active=True)
    here = Q(runs__machine=machine)
    return (
        SoftwareStack.objects.filter(precision=precision.value, runs__machine__device=device)
        .annotate(
            networks_here=Count(
                "runs__iteration_timings__architecture", filter=here, distinct=True
            ),
            is_trained_here=Exists(trained.filter(machine=machine)),
            is_trained=Exists(trained),
            latest_run=Max("runs__started_at"),
        )
        .order_by("-networks_here", "-is_trained_here", "-is_trained", "-latest_run", "-pk")
        .first()
    )


def choose_model(
    *, device: Device, machine: Machine | None, stack: SoftwareStack
) -> TrainedModel | None:
    """The active model of this machine, else the one of its device that saw most networks."""
    active = TrainedModel.objects.filter(device=device, stack=stack, is_active=True)
    models = sorted(
        active.select_related("machine"),
        key=lambda model: (machine is not None and model.machine_id == machine.pk, model.networks),
    )
    return models[-1] if models else None


def trainable_pairs(machine: Machine | None = None) -> list[tuple[Machine, SoftwareStack]]:
    """Every machine and stack with whole iterations, in a fixed order."""
    timings = IterationTiming.objects.order_by()
    if machine is not None:
        timings = timings.filter(run__machine=machine)
    pairs = set(timings.values_list("run__machine_id", "run__stack_id").distinct())
    machines = Machine.objects.select_related("device").in_bulk({pair[0] for pair in pairs})
    stacks = SoftwareStack.objects.in_bulk({pair[1] for pair in pairs})
    return sorted(
        ((machines[machine_id], stacks[stack_id]) for machine_id, stack_id in pairs),
        key=lambda pair: (pair[0].slug, pair[1].pk),
    )
