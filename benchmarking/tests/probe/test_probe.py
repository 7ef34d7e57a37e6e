"""How the probe goes through a plan: its budget, failures and signals."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarking.probe.plan import (
    CPU_SAMPLING,
    ConvolutionWork,
    SamplingPair,
    StackRequest,
    build_plan,
)
from benchmarking.probe.probe import (
    PlanError,
    Probe,
    apply_stack,
    check_plan,
    classify_error,
    round_samples,
    split_outputs,
)
from benchmarking.specs import DeviceKind, Pass
from benchmarking.tests.factories import MIDDLE_LAYER


class FakeCuda:
    def __init__(self) -> None:
        self.emptied = 0

    def empty_cache(self) -> None:
        self.emptied += 1


class FakeTorch:
    """Just enough for a probe that times nothing."""

    float16 = float32 = "dtype"
    channels_last = contiguous_format = "format"

    def __init__(self) -> None:
        self.cuda = FakeCuda()


class ScriptedProbe(Probe):
    """Each piece of work takes a second and gives the next of ``answers``."""

    def __init__(self, answers: list[Any], *, budget_seconds: float = 1e6, device: str = "cpu"):
        self.answers = answers
        self.now_seconds = 0.0
        self.lines: list[dict[str, Any]] = []
        kind = DeviceKind.CPU if device == "cpu" else DeviceKind.CUDA
        plan = build_plan(
            machine="local",
            kind=kind,
            stack=StackRequest(),
            work=[
                ConvolutionWork(MIDDLE_LAYER, size + 1, (Pass.FORWARD,))
                for size in range(len(answers))
            ],
            time_budget_seconds=budget_seconds,
        )
        super().__init__(plan, FakeTorch(), None, self.lines.append, lambda: self.now_seconds)

    def time_item(self, item: dict[str, Any]) -> dict[str, Any]:
        self.now_seconds += 1.0
        answer = self.answers[item["batch_size"] - 1]
        if callable(answer):
            answer = answer(self)
        if isinstance(answer, Exception):
            raise answer
        return {"type": "convolution", "batch_size": item["batch_size"]}


def test_work_is_done_in_the_order_of_the_plan() -> None:
    probe = ScriptedProbe(["ok", "ok", "ok"])

    done = probe.run()

    assert [line["batch_size"] for line in probe.lines] == [1, 2, 3]
    assert done == {
        "type": "done",
        "completed": 3,
        "failed": 0,
        "left": 0,
        "stopped_by": "end_of_plan",
        "seconds": 3.0,
    }


def test_run_ends_when_its_time_budget_is_used_up() -> None:
    probe = ScriptedProbe(["ok"] * 5, budget_seconds=2.0)

    done = probe.run()

    assert (done["completed"], done["left"], done["stopped_by"]) == (2, 3, "time_budget")


def test_signal_ends_the_run_after_the_timing_under_way() -> None:
    probe = ScriptedProbe(["ok", lambda probe: probe.stop("signal"), "ok"])

    done = probe.run()

    assert (done["completed"], done["left"], done["stopped_by"]) == (2, 1, "signal")
    assert [line["batch_size"] for line in probe.lines] == [1, 2]


def test_out_of_memory_is_a_result_and_the_run_goes_on() -> None:
    error = RuntimeError("CUDA out of memory. Tried to allocate\n 2.00 GiB")
    probe = ScriptedProbe(["ok", error, "ok"], device="cuda")

    done = probe.run()

    assert (done["completed"], done["failed"], done["left"]) == (2, 1, 0)
    assert probe.lines[1] == {
        "type": "error",
        "work": probe.plan["work"][1],
        "error": "out_of_memory",
        "message": "CUDA out of memory. Tried to allocate 2.00 GiB",
    }
    assert probe.torch.cuda.emptied == 1


def test_broken_device_ends_the_run() -> None:
    error = RuntimeError("CUDA error: an illegal memory access was encountered")
    probe = ScriptedProbe(["ok", error, "ok"], device="cuda")

    done = probe.run()

    assert (done["completed"], done["failed"], done["left"]) == (1, 1, 1)
    assert done["stopped_by"] == "fatal_error"
    # Any further call on a broken context raises again.
    assert probe.torch.cuda.emptied == 0


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"), "out_of_memory"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
            "out_of_memory",
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), "out_of_memory"),
        (MemoryError(), "out_of_memory"),
        (ValueError("Expected more than 1 value per channel when training"), "untrainable"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"), "unsupported"),
        (RuntimeError("Calculated padded input size: Kernel size can't be greater"), "unsupported"),
        (PlanError("torchvision has no architecture 'x'"), "unsupported"),
        (RuntimeError("CUDA error: device-side assert triggered"), "fatal"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "fatal"),
        (RuntimeError("something else"), "failed"),
    ],
)
def test_errors_are_told_apart(error: Exception, kind: str) -> None:
    assert classify_error(error) == kind


def test_samples_keep_six_digits() -> None:
    assert round_samples({"forward": [1.23456789, 0.000123456789]}) == {
        "forward": [1.23457, 0.000123457]
    }


@pytest.mark.parametrize("sample", [float("nan"), float("inf"), 0.0, -1.0])
def test_sample_that_is_no_time_is_an_error(sample: float) -> None:
    with pytest.raises(ValueError, match="the timer gave"):
        round_samples({"forward": [1.0, sample]})


def test_auxiliary_logits_are_found_whatever_they_are_called() -> None:
    class GoogLeNetOutputs:
        logits, aux_logits2, aux_logits1 = "main", "second", "first"

    class InceptionOutputs:
        logits, aux_logits = "main", None

    assert split_outputs(GoogLeNetOutputs()) == ("main", ["first", "second"])
    assert split_outputs(InceptionOutputs()) == ("main", [])
    assert split_outputs("plain") == ("plain", [])


class RecordingTorch:
    """Writes down what of torch is set before anything is timed."""

    def __init__(self, *, has_cuda: bool) -> None:
        self.settings: dict[str, Any] = {}
        self.backends = SimpleNamespace(
            cudnn=SimpleNamespace(benchmark=None, allow_tf32=None),
            cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=None)),
        )
        self.cuda = SimpleNamespace(
            is_available=lambda: has_cuda, set_device=self.setter("cuda_device")
        )
        self.set_num_threads = self.setter("threads")
        self.set_flush_denormal = self.setter("flush_denormal")
        self.manual_seed = self.setter("seed")

    def setter(self, name: str) -> Callable[[Any], None]:
        def keep(value: Any) -> None:
            self.settings[name] = value

        return keep


def test_cpu_is_measured_with_one_thread_on_its_core(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[tuple[int, list[int]]] = []
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cores: pinned.append((pid, cores)))
    torch = RecordingTorch(has_cuda=False)

    apply_stack({**valid_plan(), "cpu_affinity": [3]}, torch)

    assert pinned == [(0, [3])]
    assert torch.settings == {"threads": 1, "flush_denormal": True, "seed": 0}


@pytest.mark.parametrize(("precision", "allows_tf32"), [("fp32", False), ("tf32", True)])
def test_gpu_computes_in_the_precision_of_the_plan(precision: str, allows_tf32: bool) -> None:
    torch = RecordingTorch(has_cuda=True)
    stack = {**valid_plan()["stack"], "precision": precision, "threads": 0}

    apply_stack({**valid_plan(), "device": "cuda", "stack": stack}, torch)

    assert torch.backends.cudnn.allow_tf32 is allows_tf32
    # Heuristics choose the algorithm, and matrix products keep their full precision.
    assert torch.backends.cudnn.benchmark is False
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert torch.settings["cuda_device"] == 0
    assert "threads" not in torch.settings


def valid_plan() -> dict[str, Any]:
    return build_plan(
        machine="local",
        kind=DeviceKind.CPU,
        stack=StackRequest(),
        work=[],
        time_budget_seconds=1.0,
        sampling=SamplingPair(CPU_SAMPLING.convolution, CPU_SAMPLING.iteration),
    )


def test_probe_accepts_the_plan_that_is_built_for_it() -> None:
    check_plan(valid_plan())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "reads plans of schema 1"),
        ({"work": None, "device": None}, ""),
        ({"stack": {"precision": "fp32"}}, "stack lacks cudnn_benchmark, memory_format, threads"),
        ({"sampling": {"iteration": {}}}, "sampling lacks convolution"),
    ],
)
def test_plan_of_another_kind_is_refused(change: dict[str, Any], message: str) -> None:
    plan = {key: value for key, value in {**valid_plan(), **change}.items() if value is not None}
    with pytest.raises(PlanError, match=message or "the plan lacks device, work"):
        check_plan(plan)


def test_plan_that_is_no_object_is_refused() -> None:
    with pytest.raises(PlanError, match="schema 1"):
        check_plan([])
