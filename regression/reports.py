"""Reports of accuracy, as they are stored, or new where the data have changed."""

from __future__ import annotations

from typing import Any

from benchmarking.models import Machine, SoftwareStack
from regression.evaluation import evaluate
from regression.models import Evaluation
from regression.training import load_training_set, store_report


def current_report(
    machine: Machine, stack: SoftwareStack, *, again: bool = False
) -> dict[str, Any]:
    """The report of the present timings; computed where they changed, or ``again`` says so.

    Raises ``TrainingError`` where there is nothing to learn from.
    """
    rows = load_training_set(machine, stack)
    data_hash = rows.data_hash()
    stored = Evaluation.objects.filter(machine=machine, stack=stack, data_hash=data_hash).first()
    if stored is not None and not again:
        return dict(stored.report)
    evaluation = evaluate(rows)
    report = evaluation.report(
        machine=machine.slug, device=machine.device.slug, stack=stack.to_spec().label
    )
    store_report(machine, stack, data_hash, report, evaluation.points())
    return report
