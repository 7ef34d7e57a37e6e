"""What is missing, in which order, how long it takes and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from benchmarking.jobs.planner import MeasurementPlan, plan_measurements
from benchmarking.models import Architecture, ConvolutionLayer, Device, Machine
from benchmarking.probe.plan import (
    ConvolutionWork,
    IterationWork,
    Sampling,
    SamplingPair,
    StackRequest,
    build_plan,
)
from benchmarking.specs import (
    ConvolutionSpec,
    ConvolutionUse,
    DeviceKind,
    DeviceSpec,
    Pass,
    TracedNetwork,
)
from benchmarking.tests.factories import (
    DEPTHWISE_LAYER,
    FIRST_LAYER,
    MIDDLE_LAYER,
    TINY_USES,
    create_architecture,
    create_cpu_machine,
    create_failed_timing,
    create_iteration_timing,
    create_job,
    create_machine,
    create_price,
    create_run,
    create_stack,
    create_timings,
)

pytestmark = pytest.mark.django_db

OTHER_LAYER = ConvolutionSpec(16, 16, 16, 32, 1, 1)
ONCE = SamplingPair(Sampling(0, 1, 1, 0.0, 1e9), Sampling(0, 1, 1, 0.0, 1e9))


class RoundEstimates:
    """A pass takes 1 s, an iteration 10 s, and ``largest`` examples fit."""

    def __init__(self, largest: int | None = None) -> None:
        self.largest = largest

    def layer_seconds(
        self,
        layer: ConvolutionSpec,
        batch_sizes: Sequence[int],
        operation: Pass,
        device: DeviceSpec,
    ) -> list[float]:
        return [1.0] * len(batch_sizes)

    def iteration_seconds(
        self, network: TracedNetwork, batch_sizes: Sequence[int], device: DeviceSpec
    ) -> list[float]:
        return [10.0] * len(batch_sizes)

    def largest_batch(self, network: TracedNetwork, device: DeviceSpec) -> int | None:
        return self.largest


@pytest.fixture
def machine() -> Machine:
    return create_cpu_machine()


def plan(
    machine: Machine,
    architectures: Sequence[Architecture],
    batch_sizes: Sequence[int] | None = (1,),
    **options: Any,
) -> MeasurementPlan:
    return plan_measurements(
        machine=machine,
        stack=create_stack().to_spec(),
        architectures=architectures,
        batch_sizes=batch_sizes,
        **{"estimates": RoundEstimates(), "sampling": ONCE, **options},
    )


def described(plan: MeasurementPlan) -> list[tuple[Any, ...]]:
    return [
        (item.round, item.architecture, item.batch_size)
        if isinstance(item, IterationWork)
        else (item.round, item.layer, item.batch_size, *item.passes)
        for item in plan.work
    ]


ALL_PASSES = (Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_FILTER)
WITHOUT_DATA = (Pass.FORWARD, Pass.BACKWARD_FILTER)


def test_nothing_measured_means_everything_missing_iterations_first(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny")

    found = plan(machine, [architecture], [1, 2])

    assert described(found) == [
        (1, "tiny", 1),
        (1, "tiny", 2),
        (1, FIRST_LAYER, 1, *WITHOUT_DATA),
        (1, FIRST_LAYER, 2, *WITHOUT_DATA),
        (1, MIDDLE_LAYER, 1, *ALL_PASSES),
        (1, MIDDLE_LAYER, 2, *ALL_PASSES),
        (1, DEPTHWISE_LAYER, 1, *ALL_PASSES),
        (1, DEPTHWISE_LAYER, 2, *ALL_PASSES),
    ]
    assert found.timing_count == 2 + 2 * (2 + 3 + 3)
    assert found.already_measured == 0


def test_shared_layers_are_planned_once(machine: Machine) -> None:
    first = create_architecture(slug="first")
    second = create_architecture(
        slug="second", uses=[*TINY_USES[:2], ConvolutionUse(OTHER_LAYER, 1)]
    )

    assert described(plan(machine, [first, second])) == [
        (1, "first", 1),
        (1, FIRST_LAYER, 1, *WITHOUT_DATA),
        (1, MIDDLE_LAYER, 1, *ALL_PASSES),
        (1, DEPTHWISE_LAYER, 1, *ALL_PASSES),
        (1, "second", 1),
        (1, OTHER_LAYER, 1, *ALL_PASSES),
    ]


def test_pass_that_only_a_later_network_needs_is_added_for_it(machine: Machine) -> None:
    first = create_architecture(slug="first", uses=[ConvolutionUse(FIRST_LAYER, 1, False)])
    second = create_architecture(slug="second", uses=[ConvolutionUse(FIRST_LAYER, 1, True)])

    assert described(plan(machine, [first, second])) == [
        (1, "first", 1),
        (1, FIRST_LAYER, 1, *WITHOUT_DATA),
        (1, "second", 1),
        (1, FIRST_LAYER, 1, Pass.BACKWARD_DATA),
    ]


def test_layer_used_twice_by_one_network_needs_the_passes_of_both(machine: Machine) -> None:
    uses = [ConvolutionUse(FIRST_LAYER, 1, False), ConvolutionUse(FIRST_LAYER, 2, True)]
    architecture = create_architecture(slug="tiny", uses=uses)

    assert described(plan(machine, [architecture]))[1:] == [(1, FIRST_LAYER, 1, *ALL_PASSES)]


def test_round_one_of_everything_comes_before_round_two(machine: Machine) -> None:
    only_middle = [ConvolutionUse(MIDDLE_LAYER, 1)]
    first = create_architecture(slug="first", uses=only_middle)
    second = create_architecture(slug="second", uses=only_middle)

    assert described(plan(machine, [first, second], rounds=2)) == [
        (1, "first", 1),
        (1, MIDDLE_LAYER, 1, *ALL_PASSES),
        (1, "second", 1),
        (2, "first", 1),
        (2, MIDDLE_LAYER, 1, *ALL_PASSES),
        (2, "second", 1),
    ]


def test_only_what_is_missing_is_planned(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny")
    run = create_run(machine=machine, stack=create_stack())
    create_timings(run=run, architecture=architecture, batch_sizes=[1])
    run.layer_timings.filter(operation="backward_data", layer__key=MIDDLE_LAYER.key).delete()

    found = plan(machine, [architecture], [1, 2])

    assert described(found)[0] == (1, "tiny", 2)
    assert [row for row in described(found) if row[2] == 1] == [
        (1, MIDDLE_LAYER, 1, Pass.BACKWARD_DATA)
    ]
    assert found.already_measured == 1 + 7


def test_everything_measured_means_nothing_to_do(machine: Machine) -> None:
    architecture = create_architecture()
    create_timings(
        run=create_run(machine=machine, stack=create_stack()),
        architecture=architecture,
        batch_sizes=[1, 2],
    )

    found = plan(machine, [architecture], [1, 2])

    assert (found.work, found.expected_seconds, found.already_measured) == ((), 0.0, 18)


def test_second_round_counts_timings_not_runs(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny", uses=[ConvolutionUse(MIDDLE_LAYER, 1)])
    run = create_run(machine=machine, stack=create_stack())
    create_timings(run=run, architecture=architecture, batch_sizes=[1])

    assert described(plan(machine, [architecture], rounds=2)) == [
        (2, "tiny", 1),
        (2, MIDDLE_LAYER, 1, *ALL_PASSES),
    ]


def test_timings_of_another_stack_do_not_count(machine: Machine) -> None:
    architecture = create_architecture()
    other_stack = create_stack(framework_version="1.12.0")
    create_timings(
        run=create_run(machine=machine, stack=other_stack),
        architecture=architecture,
        batch_sizes=[1],
    )

    assert plan(machine, [architecture]).already_measured == 0


def test_layers_serve_machines_of_the_same_device_and_iterations_do_not() -> None:
    measured = create_machine(slug="aws-a")
    same_device = create_machine(slug="azure-b", device=measured.device)
    other_device = create_machine(slug="aws-c")
    architecture = create_architecture(slug="tiny")
    create_timings(
        run=create_run(machine=measured, stack=create_stack()),
        architecture=architecture,
        batch_sizes=[1],
    )

    assert described(plan(same_device, [architecture])) == [(1, "tiny", 1)]
    assert plan(other_device, [architecture]).already_measured == 0


@pytest.mark.parametrize("kind", ["out_of_memory", "untrainable", "unsupported"])
def test_lasting_failures_are_not_tried_again(machine: Machine, kind: str) -> None:
    architecture = create_architecture(slug="tiny", uses=[ConvolutionUse(MIDDLE_LAYER, 1)])
    run = create_run(machine=machine, stack=create_stack())
    create_failed_timing(run=run, architecture=architecture, batch_size=2, kind=kind)
    create_failed_timing(run=run, layer=ConvolutionLayer.objects.get(), batch_size=2, kind=kind)

    found = plan(machine, [architecture], [1, 2])

    assert described(found) == [(1, "tiny", 1), (1, MIDDLE_LAYER, 1, *ALL_PASSES)]
    assert found.left_out == (
        "4 timings failed here before (out of memory, or not supported) and are not tried again.",
    )


def test_what_did_not_fit_does_not_fit_with_more_examples(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny", uses=[ConvolutionUse(MIDDLE_LAYER, 1)])
    run = create_run(machine=machine, stack=create_stack())
    create_failed_timing(run=run, architecture=architecture, batch_size=8)
    create_failed_timing(run=run, architecture=architecture, batch_size=16)

    found = plan(machine, [architecture], [4, 8, 12, 16, 32])

    assert [row for row in described(found) if row[1] == "tiny"] == [(1, "tiny", 4)]


def test_other_failures_get_three_attempts(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny", uses=[])
    for attempt in range(3):
        assert described(plan(machine, [architecture])) == [(1, "tiny", 1)], attempt
        run = create_run(machine=machine, stack=create_stack())
        create_failed_timing(run=run, architecture=architecture, kind="failed")

    assert plan(machine, [architecture]).work == ()


def test_failure_on_another_device_says_nothing(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny", uses=[])
    run = create_run(machine=create_machine(), stack=create_stack())
    create_failed_timing(run=run, architecture=architecture)

    assert described(plan(machine, [architecture])) == [(1, "tiny", 1)]


def job_document(machine: Machine, work: Sequence[IterationWork | ConvolutionWork]) -> Any:
    return build_plan(
        machine=machine.slug,
        kind=DeviceKind.CPU,
        stack=StackRequest(),
        work=work,
        time_budget_seconds=60.0,
    )


def test_work_of_a_job_under_way_is_not_planned_again(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny")
    first = plan(machine, [architecture], [1])
    job = create_job(machine=machine, state="running", plan=job_document(machine, first.work))

    found = plan(machine, [architecture], [1, 2])

    assert {row[2] for row in described(found)} == {2}
    job.state = "cancelled"
    job.save()
    assert len(plan(machine, [architecture], [1, 2]).work) == 8


def test_what_a_job_under_way_has_stored_counts_once(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny")
    first = plan(machine, [architecture], [1])
    job = create_job(machine=machine, state="running", plan=job_document(machine, first.work))
    run = create_run(machine=machine, stack=create_stack(), job=job)
    create_timings(run=run, architecture=architecture, batch_sizes=[1])

    assert {row[0] for row in described(plan(machine, [architecture], [1], rounds=2))} == {2}


def test_job_on_another_machine_with_the_device_covers_the_layers() -> None:
    first = create_machine(slug="aws-a")
    second = create_machine(slug="azure-b", device=first.device)
    architecture = create_architecture(slug="tiny")
    work = plan(first, [architecture], [1]).work
    create_job(machine=first, plan=job_document(first, work))

    assert described(plan(second, [architecture], [1])) == [(1, "tiny", 1)]


def test_batch_too_small_to_train_is_left_out(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny", uses=[], minimum_batch_size=2)

    found = plan(machine, [architecture], [1, 2])

    assert described(found) == [(1, "tiny", 2)]
    assert found.left_out == ("tiny cannot train on fewer than 2 examples.",)


def test_batch_far_beyond_the_memory_is_left_out(machine: Machine) -> None:
    architecture = create_architecture(slug="tiny", uses=[])

    found = plan(
        machine, [architecture], [8, 100, 125, 126, 200], estimates=RoundEstimates(largest=100)
    )

    assert [row[2] for row in described(found)] == [8, 100, 125]
    assert found.left_out == (
        "tiny: batch size 126 and above do not fit into the memory of local (about 100 do).",
    )


def test_usual_batch_sizes_end_where_the_memory_does() -> None:
    machine = create_machine()
    architecture = create_architecture(slug="tiny", uses=[])

    found = plan(machine, [architecture], None, estimates=RoundEstimates(largest=20))

    assert [row[2] for row in described(found)] == [1, 2, 4, 8, 16, 24]
    assert found.left_out == ()


def test_expected_time_and_cost_come_from_estimates_and_the_newest_price(machine: Machine) -> None:
    architecture = create_architecture(uses=[ConvolutionUse(MIDDLE_LAYER, 1)])
    create_price(machine=machine, usd_per_hour="3.6", as_of="2026-01-01")
    # Recorded last, but older, or for something else.
    create_price(machine=machine, usd_per_hour="7.2", as_of="2025-01-01")
    create_price(machine=machine, usd_per_hour="5.0", as_of="2026-02-01", region="eu-west-1")
    create_price(machine=machine, usd_per_hour="1.1", as_of="2026-02-01", kind="spot")

    found = plan(machine, [architecture])

    # An iteration of 10 s, three passes of 1 s, a network to build, two pieces of work.
    assert found.expected_seconds == pytest.approx(10 + 3 + 1 + 2 * 0.05)
    assert found.usd_per_hour == Decimal("3.6")
    assert found.expected_cost_usd is not None
    assert float(found.expected_cost_usd) == pytest.approx(0.0141)


def test_machine_without_a_price_has_no_expected_cost(machine: Machine) -> None:
    assert plan(machine, [create_architecture()]).expected_cost_usd is None


def test_expected_time_is_scaled_by_what_this_machine_took_so_far(machine: Machine) -> None:
    architecture = create_architecture(uses=[])
    run = create_run(machine=machine, stack=create_stack())
    for batch_size, milliseconds in ((4, 4_000.0), (8, 5_000.0), (16, 90_000.0)):
        create_iteration_timing(
            run=run, architecture=architecture, batch_size=batch_size, samples_ms=[milliseconds]
        )

    # Half the estimated 10 s in the median.
    assert plan(machine, [architecture]).expected_seconds == pytest.approx(5 + 1 + 0.05)


def test_default_estimates_serve_a_device_that_nobody_described() -> None:
    machine = create_cpu_machine(
        fp32_tflops=None, bandwidth_gb_s=None, usable_memory_mib=None, memory_mib=None
    )

    found = plan_measurements(
        machine=machine, stack=create_stack().to_spec(), architectures=[create_architecture()]
    )

    assert found.expected_seconds > 0
    assert {item.batch_size for item in found.work} == {1, 2, 4, 8, 12, 16}


def test_heads_are_timed_where_the_trace_has_them(machine: Machine) -> None:
    with_heads = create_architecture(
        slug="inception_v3", uses=[], operations=[["nll_loss_forward", "forward", 2, 0.0, 0.0, 0.0]]
    )

    (item,) = plan(machine, [with_heads]).work

    assert isinstance(item, IterationWork)
    assert item.auxiliary_heads


def test_only_the_layers_of_other_sources_can_be_timed(machine: Machine) -> None:
    uses = [ConvolutionUse(MIDDLE_LAYER, 1)]
    brought = create_architecture(slug="brought", source="upload", uses=uses)

    found = plan(machine, [brought])

    assert described(found) == [(1, MIDDLE_LAYER, 1, *ALL_PASSES)]
    assert found.left_out == ("brought is no torchvision network: only its layers can be timed.",)


def test_number_of_queries_does_not_grow_with_the_networks(
    machine: Machine, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(6):
        create_architecture()
    stack = create_stack().to_spec()
    for count in (1, 6):
        architectures = list(Architecture.objects.prefetch_related("uses__layer")[:count])
        device = Device.objects.get(pk=machine.device_id)
        machine.device = device
        with django_assert_num_queries(6):
            plan_measurements(
                machine=machine,
                stack=stack,
                architectures=architectures,
                batch_sizes=[1, 2],
                estimates=RoundEstimates(),
            )
