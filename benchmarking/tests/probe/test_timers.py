"""The two timers: what is timed, what is not, and when the device is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarking.probe.probe import CpuTimer, CudaTimer


def ticking_clock_ns(*steps_ns: int) -> Callable[[], int]:
    def readings() -> Iterator[int]:
        now = 0
        yield now
        for step in steps_ns:
            now += step
            yield now

    return iter(readings()).__next__


class FakeDevice:
    """Writes down, in order, what a CUDA device would be asked to do."""

    def __init__(self, elapsed_ms: float = 1.5) -> None:
        self.log: list[str] = []
        self.elapsed_ms = elapsed_ms
        self.unsynchronized_reads = 0
        self.pending = 0

    def new_event(self) -> FakeEvent:
        return FakeEvent(self)

    def synchronize(self) -> None:
        self.log.append("synchronize")
        self.pending = 0

    def head_start(self) -> None:
        self.log.append("head start")

    def timer(self) -> CudaTimer:
        return CudaTimer(self.new_event, self.synchronize, self.head_start)


class FakeEvent:
    def __init__(self, device: FakeDevice) -> None:
        self.device = device

    def record(self) -> None:
        self.device.log.append("record")
        self.device.pending += 1

    def elapsed_time(self, end: FakeEvent) -> float:
        if self.device.pending:
            self.device.unsynchronized_reads += 1
        self.device.log.append("read")
        return self.device.elapsed_ms


def test_cpu_timer_gives_milliseconds_between_clock_readings() -> None:
    clock = ticking_clock_ns(2_000_000, 7, 3_000_000)
    calls: list[str] = []

    samples = CpuTimer(clock).sample({"forward": lambda: calls.append("forward")}, 2)

    assert samples == {"forward": [2.0, 3.0]}
    assert calls == ["forward", "forward"]


def test_cpu_timer_takes_turns_between_the_callables() -> None:
    calls: list[str] = []
    runs = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}

    CpuTimer().sample(runs, 2)

    assert calls == ["a", "b", "a", "b"]


def test_events_are_read_only_after_the_device_has_finished() -> None:
    device = FakeDevice()

    samples = device.timer().sample({"forward": lambda: device.log.append("run")}, 2)

    assert samples == {"forward": [1.5, 1.5]}
    assert device.unsynchronized_reads == 0
    assert device.log == [
        "synchronize",
        "head start",
        "record",
        "run",
        "record",
        "record",
        "run",
        "record",
        "synchronize",
        "read",
        "read",
    ]


def test_whole_iterations_get_no_head_start() -> None:
    device = FakeDevice()

    device.timer().sample({"iteration": lambda: None}, 1, host_bound=True)

    assert device.log == ["synchronize", "record", "record", "synchronize", "read"]


def test_host_is_not_made_to_wait_between_the_calls() -> None:
    device = FakeDevice()

    device.timer().sample({"a": lambda: None, "b": lambda: None}, 10)

    assert device.log.count("synchronize") == 2
    assert device.log[0] == "synchronize"
    assert device.log.index("read") == len(device.log) - 20
