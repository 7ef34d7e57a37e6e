"""Carries out a plan with DNNMark and gives the same lines as the probe that uses torch.

Pieces of work that time the same layer share a run of DNNMark for each direction, because most of
a run is its start. What DNNMark printed is kept in ``dnnmark.log`` beside the results, with a
heading for each layer; ``import_measurements`` reads that file as well.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarking.probe.dnnmark.config import UPSTREAM, config_text, unsupported_reason
from benchmarking.probe.dnnmark.execution import Output, execute
from benchmarking.probe.dnnmark.log import LogError, LogParser, Section
from benchmarking.probe.dnnmark.tree import BACKWARD, FORWARD, Tree
from benchmarking.probe.probe import classify_error, one_line, round_samples

LOG_FILE = "dnnmark.log"
CONFIG_FILE = "conv.dnnmark"
DIRECTION_OF_PASS = {"forward": FORWARD, "backward_filter": BACKWARD, "backward_data": BACKWARD}
# CUDA and cuDNN start slowly from a cold disk.
START_SECONDS = 120.0
SECONDS_AFTER_BUDGET = 60.0
KEPT_OF_ENDLESS_BYTES = 65_536

OUT_OF_MEMORY = "out_of_memory"
# A process of its own has a CUDA context of its own; only this is lost for the next one too.
_DEVICE_IS_LOST = re.compile(
    r"no CUDA-capable device|uncorrectable ECC|unknown error|driver version is insufficient"
    r"|devices? (?:is|are) (?:busy|unavailable)|busy or unavailable|fallen off the bus"
)

Item = dict
Line = dict


@dataclass
class Timed:
    """What the runs of one layer in one direction gave, by batch size."""

    samples_ms: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[int, tuple[str, str]] = field(default_factory=dict)


class DnnmarkProbe:
    """Carries out a plan.

    Parameters
    ----------
    emit
        Receives each result as a dictionary.
    folder
        Where ``dnnmark.log`` is written.
    environment
        The line that the log begins with.
    run_program
        Runs a command; replaced by tests.
    """

    def __init__(
        self,
        plan: dict[str, Any],
        tree: Tree,
        emit: Callable[[Line], None],
        *,
        environment: dict[str, Any],
        folder: Path = Path(),
        run_program: Callable[..., Output] = execute,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan = plan
        self.tree = tree
        self.emit = emit
        self.environment = environment
        self.log_path = folder / LOG_FILE
        self.run_program = run_program
        self.clock = clock
        self.sampling = plan["sampling"]["convolution"]
        self.stop_reason = ""
        self.started = clock()
        self._log_is_begun = False

    def stop(self, reason: str) -> None:
        """Ask the run to end after the timing under way."""
        self.stop_reason = self.stop_reason or reason

    def run(self) -> Line:
        """Time every item of the plan that the budget allows; return the last line."""
        self.started = self.clock()
        counts = {"convolution": 0, "error": 0}
        for group in _same_layer(self.plan["work"]):
            self._watch_budget()
            if self.stop_reason:
                break
            for line in self._time_group(group):
                counts[line["type"]] += 1
                self.emit(line)
        return {
            "type": "done",
            "completed": counts["convolution"],
            "failed": counts["error"],
            "left": len(self.plan["work"]) - sum(counts.values()),
            "stopped_by": self.stop_reason or "end_of_plan",
            "seconds": self.clock() - self.started,
        }

    def _watch_budget(self) -> None:
        if self.clock() - self.started >= self.plan["time_budget_seconds"]:
            self.stop("time_budget")

    def _time_group(self, group: Sequence[Item]) -> Iterator[Line]:
        if group[0]["kind"] != "convolution":
            for item in group:
                yield _error_line(item, "unsupported", "DNNMark times no whole iterations")
            return
        reason = unsupported_reason(group[0]["layer"])
        if reason:
            for item in group:
                yield _error_line(item, "unsupported", reason)
            return
        timed = {FORWARD: Timed(), BACKWARD: Timed()}
        for direction in (FORWARD, BACKWARD):
            sizes = {item["batch_size"] for item in group if direction in _directions(item)}
            # A batch size without one of its passes is of no use.
            sizes -= set(timed[FORWARD].failures)
            timed[direction] = self._time_direction(group[0], direction, sorted(sizes))
        for item in group:
            line = _line_of(item, timed)
            if line is not None:
                yield line

    def _time_direction(self, item: Item, direction: str, sizes: list[int]) -> Timed:
        """Time a layer at each batch size; each turn takes at least one size off the list."""
        timed = Timed()
        outstanding = list(sizes)
        while outstanding and not self.stop_reason:
            together = outstanding[:1] if self.tree.flavour == UPSTREAM else outstanding
            failure = self._time_together(item, direction, together, timed)
            outstanding = [size for size in outstanding if size not in timed.samples_ms]
            if failure is None or not outstanding:
                continue
            first, *rest = outstanding
            timed.failures[first] = failure
            if failure[0] == OUT_OF_MEMORY:
                message = f"not tried: batch size {first} ran out of memory"
                timed.failures.update(dict.fromkeys(rest, (OUT_OF_MEMORY, message)))
                break
            outstanding = rest
        return timed

    def _time_together(
        self, item: Item, direction: str, sizes: list[int], timed: Timed
    ) -> tuple[str, str] | None:
        """Add what one timing gives; return why a size has no time, nothing if the run was stopped.

        Upstream prints one sample and ends, so it is run again and again.
        """
        is_single = self.tree.flavour == UPSTREAM
        samples: dict[int, dict[str, list[float]]] = {}
        failure = None
        for number in range(self.sampling["repeats"] if is_single else 1):
            output = self._run_once(item, direction, sizes)
            self._keep(output, self._heading(item, direction, sizes) if number == 0 else "")
            sections, fault = _read_output(output, sizes)
            for batch in itertools.chain.from_iterable(each.batches for each in sections):
                if batch.batch_size in sizes:
                    passes = samples.setdefault(batch.batch_size, {})
                    for name, values in batch.samples_ms.items():
                        passes.setdefault(name, []).extend(values)
            self._watch_budget()
            if not (self.stop_reason and output.ended_by in ("limit", "stop")):
                failure = _failure_of(output, sections, fault)
            if failure is not None or self.stop_reason:
                break
        if failure is not None and failure[0] == "fatal":
            self.stop("fatal_error")
        if failure is None or not is_single:
            timed.samples_ms.update(samples)
        if failure is None and not self.stop_reason and len(samples) < len(sizes):
            failure = ("failed", "DNNMark ended without a time")
        return failure

    def _run_once(self, item: Item, direction: str, sizes: list[int]) -> Output:
        config = config_text(
            item["layer"],
            sizes,
            self.tree.flavour,
            find_fastest=self.plan["stack"]["cudnn_benchmark"],
        )
        folder = Path(tempfile.mkdtemp(prefix="dnnmark-"))
        try:
            (folder / CONFIG_FILE).write_text(config, encoding="utf-8")
            command = self.tree.command(
                direction,
                CONFIG_FILE,
                iterations=self.sampling["repeats"],
                warms_up=self.sampling["warmup"] > 0,
            )
            output = self.run_program(
                command, folder, self._limit_seconds(sizes), lambda: bool(self.stop_reason)
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return output

    def _limit_seconds(self, sizes: Sequence[int]) -> float:
        needed = START_SECONDS + self.sampling["item_seconds"] * len(sizes)
        ends = self.started + self.plan["time_budget_seconds"] + SECONDS_AFTER_BUDGET
        return max(1.0, min(needed, ends - self.clock()))

    def _heading(self, item: Item, direction: str, sizes: Sequence[int]) -> str:
        lines = [
            f"# layer: {json.dumps(item['layer'])}",
            f"# direction: {direction}",
            f"# round: {item['round']}",
            f"# batch_sizes: {','.join(str(size) for size in sizes)}",
        ]
        if len(sizes) == 1:
            lines.append(f"# batch_size: {sizes[0]}")
        if not self._log_is_begun:
            lines.insert(0, f"# environment: {json.dumps(self.environment)}")
            self._log_is_begun = True
        return "\n".join(lines) + "\n"

    def _keep(self, output: Output, heading: str) -> None:
        kept_bytes = KEPT_OF_ENDLESS_BYTES if output.ended_by == "output" else None
        with self.log_path.open("ab") as log:
            log.write(heading.encode())
            for text in (output.stdout[:kept_bytes], output.stderr[:kept_bytes]):
                log.write(text if text.endswith(b"\n") or not text else text + b"\n")


def _same_layer(work: Sequence[Item]) -> Iterator[list[Item]]:
    def key(item: Item) -> Any:
        return item["kind"], item.get("layer"), item["round"]

    for _, items in itertools.groupby(work, key):
        yield list(items)


def _directions(item: Item) -> set[str]:
    return {DIRECTION_OF_PASS[name] for name in item["passes"]}


def _line_of(item: Item, timed: dict[str, Timed]) -> Line | None:
    """The result of an item, nothing where the run was stopped before it was timed."""
    size = item["batch_size"]
    samples_ms = {}
    for direction in sorted(_directions(item), key=(FORWARD, BACKWARD).index):
        failure = timed[direction].failures.get(size)
        if failure is not None:
            return _error_line(item, *failure)
        passes = timed[direction].samples_ms.get(size)
        if passes is None:
            return None
        samples_ms.update(passes)
    missing = [name for name in item["passes"] if name not in samples_ms]
    if missing:
        return _error_line(item, "failed", f"DNNMark printed no times of {', '.join(missing)}")
    return {
        "type": "convolution",
        "layer": item["layer"],
        "batch_size": size,
        "round": item["round"],
        "samples_ms": round_samples({name: samples_ms[name] for name in item["passes"]}),
    }


def _error_line(item: Item, kind: str, message: str) -> Line:
    return {"type": "error", "work": item, "error": kind, "message": one_line(message)}


def _read_output(output: Output, sizes: Sequence[int]) -> tuple[list[Section], LogError | None]:
    """The sections of what a process printed, less what is not whole, and what was wrong in it."""
    parser = LogParser(sizes[0] if len(sizes) == 1 else None)
    fault = None
    try:
        for line in itertools.chain(output.stdout.splitlines(), output.stderr.splitlines()):
            parser.feed(line)
    except LogError as error:
        fault = error
    try:
        return parser.confirmed(), fault
    except LogError as error:
        return [], fault or error


def _failure_of(
    output: Output, sections: Sequence[Section], fault: LogError | None
) -> tuple[str, str] | None:
    """Kind and message of what went wrong in a process, ``None`` if nothing did."""
    for section in sections:
        for failure in section.failures:
            if _DEVICE_IS_LOST.search(failure.message):
                return "fatal", failure.message
            return classify_error(RuntimeError(failure.message)), failure.message
    if output.ended_by == "output":
        return "failed", "DNNMark printed without an end"
    if fault is not None:
        return "failed", f"what DNNMark printed is wrong: {fault}"
    if output.ended_by == "limit":
        return "failed", "DNNMark did not come to an end in its time"
    if output.exit_code < 0:
        return "failed", f"DNNMark was killed by signal {-output.exit_code}"
    if output.exit_code > 0:
        last = output.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return "failed", f"DNNMark left with {output.exit_code} {''.join(last)}"
    return None
