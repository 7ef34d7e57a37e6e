"""What DNNMark prints: times of single operations, sums that they must agree with, failures.

The fork prints a table per batch size to its standard output, upstream writes to its log (glog)
on standard error; one text may hold both, of one run or many, with whatever else a shell printed
in between. A line that starts like one of DNNMark's and is not one is refused with its number:
it is cut off or damaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

MAXIMUM_SAMPLE_MS = 86_400_000.0
MAXIMUM_BATCH_SIZE = 1_000_000
MAXIMUM_LINE_CHARACTERS = 100_000
MAXIMUM_SAMPLES = 10_000

PASSES = {
    "ConvFwd": "forward",
    "ConvBwdFilter": "backward_filter",
    "ConvBwdData": "backward_data",
}
_PASSES_OF_SUM = {"FWD": ("forward",), "BWD": ("backward_filter", "backward_data")}

_HEADER = re.compile(r"# (\w+): (.*)")
# The fork's own shell script writes these; they stand for headings.
_VERSIONS = re.compile(
    r"NVDRV:(?P<driver>[\d.-]+),CUDA:(?P<cuda>[\d.x-]+),cuDNN:(?P<cudnn>[\d.-]+)"
)
_GPU = re.compile(r"GPU0: (?P<gpu>[^,]+), \d+ MiB.*")
# Headings that hold for all layers behind them.
_OF_THE_TEXT = ("environment", "machine", "gpu", "driver", "cuda", "cudnn")
_CONFIGURED = re.compile(
    r"(n|c|h|w|num_output|(?:kernel_size|pad|stride)(?:_[hw])?|algo|algod|algofwd|conv_mode)=(\S*)"
)
_USING = re.compile(r"Using MBS (\d+)")
_GLOG = re.compile(r"([IWEF])\d{4,8} [\d:.]+\s+\d+ [^\]\s]+\] ?(.*)")
_PRINTED = re.compile(
    r"(?:n=(\S+) )?Operation (Conv[A-Za-z]+)_(\d+): "
    r"(?:GPU time (\S+)ms, CPU time (\S+)ms|(?!GPU)(\S+)ms)"
)
_PRINTED_START = re.compile(r"(?:n=\S* )?Operation Conv")
_LOGGED = re.compile(r"(Conv[A-Za-z]+)_(\d+): (\S+)ms")
_LOGGED_START = re.compile(r"Conv(?:Fwd|Bwd[A-Za-z]*)_")
_SUM = re.compile(r"(?:n=(\S+) )?(FWD|BWD)(?: running)? time\(ms\): (\S+)")
_SUM_START = re.compile(r"(?:n=\S* )?[FB]WD (?:running )?time")
_CUDA_ERROR = re.compile(r"(?:CUDA|HIP) Error at .*")
_LIBRARY_ERROR = re.compile(r"(?:CUDNN|CURAND|MIOpen|ROCBLAS|Parse configuration) Error.*")
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
# Sums are of what was measured, lines of what was printed: six digits behind the point, or six
# significant ones.
_RELATIVE_TOLERANCE = 1e-4
_ABSOLUTE_TOLERANCE_MS = 1e-4


class LogError(ValueError):
    """No DNNMark prints this; the message names the line and the reason."""

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(f"line {line_number}: {reason}")
        self.line_number = line_number
        self.reason = reason


@dataclass
class Failure:
    """A run that ended with an error; ``batch_size`` is ``None`` where nothing tells it."""

    line_number: int
    batch_size: int | None
    message: str


@dataclass
class BatchTimes:
    """The samples of one batch size, by pass, in milliseconds and in the order of printing."""

    line_number: int
    batch_size: int | None
    samples_ms: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class Section:
    """What a text says about one layer.

    ``headers`` are the lines ``# name: value`` before it, ``configured`` the keys of a
    configuration that was printed among them. ``is_fork`` is true once a line of the fork was seen.
    """

    line_number: int
    headers: dict[str, str] = field(default_factory=dict)
    configured: dict[str, str] = field(default_factory=dict)
    batches: list[BatchTimes] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    is_fork: bool = False


@dataclass
class _Sample:
    line_number: int
    batch_size: int | None
    operation: str
    milliseconds: float
    is_printed: bool


class LogParser:
    """Reads a text line by line; ``finish`` gives the sections.

    Samples count once the sum behind them agrees, so that what was printed of a batch size before
    the program died is not taken for the whole. A text without any sum is taken as it is.

    Parameters
    ----------
    batch_size
        The one that a text is of which does not say so itself.
    """

    def __init__(self, batch_size: int | None = None) -> None:
        self.sections: list[Section] = [Section(1)]
        self._has_sums = False
        self._sums: list[tuple[int | None, str, float]] = []
        self._sizes_used: set[int] = set()
        self._hinted_batch_size = batch_size
        self._batch_size = batch_size
        self._open: list[_Sample] = []
        self._cuda_error: Failure | None = None
        self._number = 0

    def feed(self, line: bytes) -> None:
        """Read the next line; raises ``LogError`` where it is damaged or disagrees."""
        self._number += 1
        if len(line) > MAXIMUM_LINE_CHARACTERS:
            raise self._refuse(f"is longer than {MAXIMUM_LINE_CHARACTERS:,} characters")
        try:
            # Windows' editors put a mark before the first line, which would hide what it says.
            text = line.decode("utf-8-sig" if self._number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            raise self._refuse("is not UTF-8 text") from None
        if "\0" in text:
            raise self._refuse("holds a character that no text can have")
        if self._cuda_error is not None:
            self._cuda_error.message = f"CUDA error: {text or 'unknown'}"
            self._cuda_error = None
            return
        self._read(text)

    def finish(self) -> list[Section]:
        """The sections that hold something.

        Raises ``LogError`` where samples are left without the sum that others have.
        """
        self._end_of_section()
        return self._filled_sections()

    def confirmed(self) -> list[Section]:
        """The sections of a program that was ended, without what no sum confirms.

        Raises ``LogError`` as ``finish``, but for missing sums.
        """
        self._open = [sample for sample in self._open if not sample.is_printed]
        self._end_of_section()
        return self._filled_sections()

    def _filled_sections(self) -> list[Section]:
        return [section for section in self.sections if section.batches or section.failures]

    @property
    def _section(self) -> Section:
        return self.sections[-1]

    def _refuse(self, reason: str) -> LogError:
        return LogError(self._number, reason)

    def _read(self, text: str) -> None:
        if match := _HEADER.fullmatch(text):
            self._read_header(match.group(1), match.group(2).strip())
        elif match := _CONFIGURED.fullmatch(text):
            self._read_configured(match.group(1), match.group(2))
        elif text == "[Convolution]":
            if self._has_times():
                self._start_section()
            self._section.configured.clear()
        elif match := _USING.fullmatch(text):
            self._batch_size = self._batch_size_in(match.group(1))
            self._sizes_used.add(self._batch_size)
            self._section.is_fork = True
        elif _PRINTED_START.match(text):
            self._read_printed(text)
        elif _SUM_START.match(text):
            self._read_sum(text)
        elif _CUDA_ERROR.fullmatch(text):
            self._cuda_error = self._add_failure(text)
        elif _LIBRARY_ERROR.fullmatch(text):
            self._add_failure(_shortened(text))
        elif match := _VERSIONS.fullmatch(text) or _GPU.fullmatch(text):
            for name, value in match.groupdict().items():
                self._section.headers.setdefault(name, value)
        elif match := _GLOG.fullmatch(text):
            self._read_logged(match.group(1), match.group(2))

    def _read_header(self, name: str, value: str) -> None:
        is_another = self._has_times() or (name == "layer" and name in self._section.headers)
        if name in ("environment", "layer") and is_another:
            self._start_section()
        elif name == "batch_size":
            self._batch_size = self._batch_size_in(value)
        self._section.headers[name] = value

    def _read_configured(self, keyword: str, value: str) -> None:
        self._section.configured[keyword] = value
        if keyword == "n" and value.isdecimal():
            self._batch_size = self._batch_size_in(value)

    def _has_times(self) -> bool:
        return bool(self._open or self._section.batches or self._section.failures)

    def _start_section(self) -> None:
        self._end_of_section()
        headers = self._section.headers
        kept = {name: headers[name] for name in _OF_THE_TEXT if name in headers}
        self._batch_size = self._hinted_batch_size
        self.sections.append(Section(self._number, kept))

    def _read_printed(self, text: str) -> None:
        match = _PRINTED.fullmatch(text)
        if match is None:
            raise self._refuse("is cut off or damaged")
        batch_size, name, index, gpu_ms, cpu_ms, plain_ms = match.groups()
        if cpu_ms is not None:
            self._number_in(cpu_ms)
        self._section.is_fork = True
        self._add_sample(batch_size, name, index, gpu_ms or plain_ms, is_printed=True)

    def _read_logged(self, severity: str, text: str) -> None:
        if severity == "F":
            self._add_failure(_shortened(text))
        elif _LOGGED_START.match(text):
            match = _LOGGED.fullmatch(text)
            if match is None:
                raise self._refuse("is cut off or damaged")
            self._add_sample(None, *match.groups(), is_printed=False)

    def _add_sample(
        self, batch_size: str | None, name: str, index: str, milliseconds: str, *, is_printed: bool
    ) -> None:
        operation = PASSES.get(name)
        if operation is None:
            raise self._refuse(f"times {name}; known are {', '.join(PASSES)}")
        if index.strip("0"):
            raise self._refuse(
                f"times layer {index[:9]} of a network; allowed are logs of one layer"
            )
        value = self._number_in(milliseconds)
        if not 0 < value <= MAXIMUM_SAMPLE_MS:
            raise self._refuse(
                f"holds {milliseconds} ms; a time is above 0 and at most {MAXIMUM_SAMPLE_MS:.0f} ms"
            )
        size = self._batch_size if batch_size is None else self._batch_size_in(batch_size)
        if len(self._open) >= MAXIMUM_SAMPLES * len(PASSES):
            raise self._refuse(f"is one of more than {MAXIMUM_SAMPLES:,} times of one batch size")
        self._open.append(_Sample(self._number, size, operation, value, is_printed))

    def _read_sum(self, text: str) -> None:
        match = _SUM.fullmatch(text)
        if match is None:
            raise self._refuse("is cut off or damaged")
        batch_text, direction, sum_text = match.groups()
        size = self._batch_size if batch_text is None else self._batch_size_in(batch_text)
        sum_ms = self._number_in(sum_text)
        self._sums.append((size, direction, sum_ms))
        self._has_sums = True
        behind: list[_Sample] = []
        others: list[_Sample] = []
        for sample in self._open:
            # Either the table or its sum may leave the batch size out.
            is_of_size = batch_text is None or sample.batch_size in (size, None)
            is_behind = sample.is_printed and sample.operation in _PASSES_OF_SUM[direction]
            (behind if is_behind and is_of_size else others).append(sample)
        if behind:
            self._compare(direction, size, sum_ms, behind, self._number)
            for sample in behind:
                if sample.batch_size is None:
                    sample.batch_size = size
            self._close(behind)
            self._open = others

    def _compare(
        self,
        direction: str,
        size: int | None,
        sum_ms: float,
        samples: list[_Sample],
        line_number: int,
    ) -> None:
        total_ms = math.fsum(sample.milliseconds for sample in samples)
        if abs(total_ms - sum_ms) > _RELATIVE_TOLERANCE * sum_ms + _ABSOLUTE_TOLERANCE_MS:
            raise LogError(
                line_number,
                f"the sum {direction} of batch size {size} is {sum_ms:g} ms, "
                f"the times that it stands for make {total_ms:g} ms",
            )

    def _end_of_section(self) -> None:
        printed = [sample for sample in self._open if sample.is_printed]
        if printed and self._has_sums:
            raise LogError(
                printed[-1].line_number,
                f"no sum follows: the times of batch size {printed[-1].batch_size} are cut off",
            )
        if printed:
            self._close(printed)
        elif self._open and not self._section.batches:
            self._close_logged(self._open)
        self._open = []
        self._sums = []
        self._sizes_used = set()

    def _close_logged(self, samples: list[_Sample]) -> None:
        """Take what came from glog, which is all there is and names no batch size."""
        number = samples[0].line_number
        if len(self._sizes_used) > 1:
            raise LogError(
                number, "names no batch size, and there are several; run with --detailedtime"
            )
        for direction, operations in _PASSES_OF_SUM.items():
            sums = [sum_ms for _, summed, sum_ms in self._sums if summed == direction]
            logged = [sample for sample in samples if sample.operation in operations]
            if sums and logged:
                size = logged[0].batch_size
                self._compare(direction, size, math.fsum(sums), logged, number)
        self._close(samples)

    def _close(self, samples: Iterable[_Sample]) -> None:
        batches = {batch.batch_size: batch for batch in self._section.batches}
        for sample in samples:
            batch = batches.get(sample.batch_size)
            if batch is None:
                batch = BatchTimes(sample.line_number, sample.batch_size)
                batches[sample.batch_size] = batch
                self._section.batches.append(batch)
            values = batch.samples_ms.setdefault(sample.operation, [])
            if len(values) >= MAXIMUM_SAMPLES:
                raise LogError(
                    sample.line_number,
                    f"is one of more than {MAXIMUM_SAMPLES:,} times of one batch size",
                )
            values.append(sample.milliseconds)

    def _add_failure(self, message: str) -> Failure:
        failure = Failure(self._number, self._batch_size, message)
        self._section.failures.append(failure)
        return failure

    def _batch_size_in(self, text: str) -> int:
        value = self._number_in(text)
        if value != int(value) or not 1 <= value <= MAXIMUM_BATCH_SIZE:
            raise self._refuse(
                f"has batch size {text[:40]}; allowed are whole numbers from 1 to "
                f"{MAXIMUM_BATCH_SIZE}"
            )
        return int(value)

    def _number_in(self, text: str) -> float:
        if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
            raise self._refuse(f"holds {text[:40]!r}, which is no number of 0 or more")
        return float(text)


def is_batch_size(text: str) -> bool:
    """Whether ``text`` is a batch size that a log may be of."""
    return re.fullmatch(r"\d{1,7}", text) is not None and 1 <= int(text) <= MAXIMUM_BATCH_SIZE


def _shortened(text: str) -> str:
    return " ".join(text.split())[:300]
