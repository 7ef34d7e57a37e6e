"""Times convolution passes and whole training iterations; runs on the measured machine.

    python probe.py < plan.json > results.jsonl

This one file needs torch (and torchvision for whole iterations) and nothing else of its
project, and runs on Python 3.8 with torch 1.12 as well as on the newest. ``plan.py`` beside it
describes the plan it reads and ``results.py`` the JSON lines it prints: an ``environment`` line
first, then ``convolution``, ``iteration`` and ``error`` lines as the work gets done, ``done`` last.

The order of the work is the plan's; rounds are interleaved there, so that slow drift of the machine
spreads over all of it. Nothing is printed twice and every line is flushed, so the run may be
killed at any time and what was printed stays valid.
"""

from __future__ import annotations

import datetime
import gc
import hashlib
import json
import math
import os
import platform
import re
import signal
import subprocess
import sys
import time
import uuid

SCHEMA = 1
LEARNING_RATE = 1e-4
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
CLASSES = 1000
AUXILIARY_LOSS_WEIGHTS = {"inception_v3": 0.4, "googlenet": 0.3}
HOST_HEAD_START_CYCLES = 2_000_000


class PlanError(Exception):
    """The plan cannot be carried out on this machine; the message says what is allowed."""


class CpuTimer:
    """Wall-clock samples of computations that have finished when the call returns."""

    def __init__(self, clock_ns=time.perf_counter_ns):
        self.clock_ns = clock_ns

    def sample(self, runs, count, host_bound=False):
        """Run each callable of ``runs`` ``count`` times in turn; return milliseconds by name."""
        samples: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(count):
            for name, run in runs.items():
                started = self.clock_ns()
                run()
                samples[name].append((self.clock_ns() - started) / 1e6)
        return samples


class CudaTimer:
    """Device time between CUDA events around each call.

    Everything is enqueued before the one synchronisation at the end. Unless ``host_bound``, a
    sleeping kernel goes first, so that the host is ahead of the device and the gaps between
    launches are not timed; a whole iteration is timed with those gaps, because a real training
    loop has them as well.
    """

    def __init__(self, new_event, synchronize, head_start):
        self.new_event = new_event
        self.synchronize = synchronize
        self.head_start = head_start

    def sample(self, runs, count, host_bound=False):
        """Run each callable of ``runs`` ``count`` times in turn; return milliseconds by name."""
        self.synchronize()
        if not host_bound:
            self.head_start()
        events = []
        for _ in range(count):
            for name, run in runs.items():
                start, end = self.new_event(), self.new_event()
                start.record()
                run()
                end.record()
                events.append((name, start, end))
        self.synchronize()
        samples: dict[str, list[float]] = {name: [] for name in runs}
        for name, start, end in events:
            samples[name].append(start.elapsed_time(end))
        return samples


class Sampling:
    """How many samples a timing gets.

    At least ``repeats``; more until each callable has ``minimum_ms`` of samples or
    ``maximum_repeats`` is reached; a timing that takes longer than ``item_seconds`` ends early,
    with one sample at least.
    """

    def __init__(self, warmup=3, repeats=10, maximum_repeats=10, minimum_ms=0.0, item_seconds=60.0):
        self.warmup = warmup
        self.repeats = repeats
        self.maximum_repeats = max(maximum_repeats, repeats)
        self.minimum_ms = minimum_ms
        self.item_seconds = item_seconds

    def collect(self, timer, runs, host_bound=False, clock=time.monotonic):
        """Warm up, then return the samples in milliseconds by name."""
        started = clock()
        timer.sample(runs, self.warmup, host_bound)
        warmup_seconds = clock() - started
        fits = warmup_seconds * (1 + self.repeats / max(1, self.warmup)) <= self.item_seconds
        samples = timer.sample(runs, self.repeats if fits else 1, host_bound)
        while self.wants_more(samples) and clock() - started < self.item_seconds:
            for name, values in timer.sample(runs, 1, host_bound).items():
                samples[name].extend(values)
        return samples

    def wants_more(self, samples):
        taken = min(len(values) for values in samples.values())
        if taken < self.repeats:
            return True
        spent_ms = min(sum(values) for values in samples.values())
        return spent_ms < self.minimum_ms and taken < self.maximum_repeats


def convolution_runs(torch, item, device, dtype, memory_format):
    """The callables that compute each pass of one convolution layer at one batch size."""
    layer, batch = item["layer"], item["batch_size"]
    factory = {"device": device, "dtype": dtype}
    stride = [layer["stride_height"], layer["stride_width"]]
    padding = [layer["padding_height"], layer["padding_width"]]
    dilation = [layer["dilation_height"], layer["dilation_width"]]
    groups, biased = layer["groups"], layer["bias"]
    out_channels = layer["out_channels"]
    inputs = torch.randn(
        batch, layer["in_channels"], layer["in_height"], layer["in_width"], **factory
    ).contiguous(memory_format=memory_format)
    weight = torch.randn(
        out_channels,
        layer["in_channels"] // groups,
        layer["kernel_height"],
        layer["kernel_width"],
        **factory,
    ).contiguous(memory_format=memory_format)
    bias = torch.randn(out_channels, **factory) if biased else None

    def forward():
        return torch.ops.aten.convolution(
            inputs, weight, bias, stride, padding, dilation, False, [0, 0], groups
        )

    gradient = torch.randn_like(forward())

    def backward(mask):
        return torch.ops.aten.convolution_backward(
            gradient,
            inputs,
            weight,
            [out_channels] if biased else None,
            stride,
            padding,
            dilation,
            False,
            [0, 0],
            groups,
            mask,
        )

    all_runs = {
        "forward": forward,
        "backward_data": lambda: backward([True, False, False]),
        "backward_filter": lambda: backward([False, True, biased]),
    }
    return {name: all_runs[name] for name in item["passes"]}


class IterationFactory:
    """Builds the training iteration of a torchvision network; keeps the last network built."""

    def __init__(self, torch, device, precision, memory_format):
        self.torch = torch
        self.device = device
        self.precision = precision
        self.memory_format = memory_format
        self.name = None
        self.network = None

    def forget(self):
        self.name = self.network = None

    def build(self, architecture, auxiliary_heads):
        if (architecture, auxiliary_heads) != self.name:
            self.forget()
            gc.collect()
            import torchvision

            builder = getattr(torchvision.models, architecture, None)
            if builder is None:
                raise PlanError(f"torchvision has no architecture {architecture!r}")
            options = {}
            if architecture in AUXILIARY_LOSS_WEIGHTS:
                options = {"init_weights": False, "aux_logits": auxiliary_heads}
            network = builder(num_classes=CLASSES, **options)
            self.network = network.to(self.device, memory_format=self.memory_format)
            self.name = (architecture, auxiliary_heads)
        return self.network

    def run(self, item):
        """A callable that computes one iteration of ``item``, and what it keeps alive."""
        torch = self.torch
        network = self.build(item["architecture"], item["auxiliary_heads"])
        network.train()
        size, batch = item["image_size"], item["batch_size"]
        images = torch.randn(batch, 3, size, size, device=self.device)
        images = images.contiguous(memory_format=self.memory_format)
        labels = torch.randint(CLASSES, (batch,), device=self.device)
        criterion = torch.nn.CrossEntropyLoss()
        optimizer = new_optimizer(torch, item["optimizer"], network)
        auxiliary_weight = AUXILIARY_LOSS_WEIGHTS.get(item["architecture"], 0.0)
        amp = self.precision == "amp"
        scaler = new_scaler(torch, enabled=amp)

        def iteration():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(self.device.split(":")[0], dtype=torch.float16, enabled=amp):
                outputs = network(images)
                main, heads = split_outputs(outputs)
                loss = criterion(main, labels)
                for head in heads:
                    loss = loss + auxiliary_weight * criterion(head, labels)
            if not amp:
                loss.backward()
                optimizer.step()
                return
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        return iteration


def split_outputs(outputs):
    """The main logits and the list of auxiliary logits of a network's answer."""
    if hasattr(outputs, "logits"):
        heads = [getattr(outputs, n, None) for n in ("aux_logits", "aux_logits1", "aux_logits2")]
        return outputs.logits, [head for head in heads if head is not None]
    return outputs, []


def new_optimizer(torch, name, network):
    if name == "sgd":
        return torch.optim.SGD(
            network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
        )
    return torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)


def new_scaler(torch, enabled):
    if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler("cuda", enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


def classify_error(error):
    """The kind of failure: out_of_memory, untrainable, unsupported, fatal or failed."""
    text = f"{type(error).__name__}: {error}"
    patterns = (
        ("out_of_memory", r"out of memory|OutOfMemory|can't allocate memory|MemoryError"),
        ("out_of_memory", r"ALLOC_FAILED"),
        ("untrainable", r"more than 1 value per channel"),
        ("fatal", r"illegal memory access|device-side assert|unspecified launch failure|ECC|Xid"),
        ("unsupported", r"NOT_SUPPORTED|unable to find an engine|not implemented|PlanError"),
        ("unsupported", r"Kernel size can't be greater|Output size is too small"),
        ("unsupported", r"non-positive stride"),
    )
    for kind, pattern in patterns:
        if re.search(pattern, text):
            return kind
    return "failed"


def one_line(text, limit=300):
    return " ".join(str(text).split())[:limit]


class Probe:
    """Carries out a plan; ``emit`` receives each result as a dictionary."""

    def __init__(self, plan, torch, timer, emit, clock=time.monotonic):
        self.plan = plan
        self.torch = torch
        self.timer = timer
        self.emit = emit
        self.clock = clock
        self.sampling = {
            kind: Sampling(**plan["sampling"][kind]) for kind in ("convolution", "iteration")
        }
        stack = plan["stack"]
        self.dtype = torch.float16 if stack["precision"] == "amp" else torch.float32
        channels_last = stack["memory_format"] == "channels_last"
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format
        self.device = plan["device"]
        self.iterations = IterationFactory(
            torch, self.device, stack["precision"], self.memory_format
        )
        self.stop_reason = None

    def stop(self, reason):
        """Ask the run to end after the timing under way."""
        self.stop_reason = reason

    def run(self):
        """Time every item of the plan that the budget allows; return how many were completed."""
        started = self.clock()
        budget = self.plan["time_budget_seconds"]
        completed = failed = 0
        for item in self.plan["work"]:
            if self.stop_reason is None and self.clock() - started >= budget:
                self.stop("time_budget")
            if self.stop_reason is not None:
                break
            try:
                self.emit(self.time_item(item))
                completed += 1
            except Exception as error:
                failed += 1
                kind = classify_error(error)
                line = {"type": "error", "work": item, "error": kind, "message": one_line(error)}
                self.emit(line)
                error.__traceback__ = None
                self.recover(kind)
        return {
            "type": "done",
            "completed": completed,
            "failed": failed,
            "left": len(self.plan["work"]) - completed - failed,
            "stopped_by": self.stop_reason or "end_of_plan",
            "seconds": self.clock() - started,
        }

    def recover(self, kind):
        """Free what a failed timing held; a broken CUDA context ends the run."""
        if kind == "fatal":
            self.stop("fatal_error")
            return
        if kind == "out_of_memory":
            self.iterations.forget()
        gc.collect()
        if self.device.startswith("cuda"):
            self.torch.cuda.empty_cache()

    def time_item(self, item):
        if item["kind"] == "convolution":
            return self.time_convolution(item)
        return self.time_iteration(item)

    def time_convolution(self, item):
        # The last network's parameters would take memory away from a layer near the limit.
        self.iterations.forget()
        with self.torch.no_grad():
            runs = convolution_runs(self.torch, item, self.device, self.dtype, self.memory_format)
            samples = self.sampling["convolution"].collect(self.timer, runs, clock=self.clock)
        return {
            "type": "convolution",
            "layer": item["layer"],
            "batch_size": item["batch_size"],
            "round": item["round"],
            "samples_ms": round_samples(samples),
        }

    def time_iteration(self, item):
        on_gpu = self.device.startswith("cuda")
        if on_gpu:
            self.torch.cuda.reset_peak_memory_stats()
        run = self.iterations.run(item)
        samples = self.sampling["iteration"].collect(
            self.timer, {"iteration": run}, host_bound=True, clock=self.clock
        )
        peak_bytes = self.torch.cuda.max_memory_allocated() if on_gpu else None
        return {
            "type": "iteration",
            "architecture": item["architecture"],
            "image_size": item["image_size"],
            "auxiliary_heads": item["auxiliary_heads"],
            "optimizer": item["optimizer"],
            "batch_size": item["batch_size"],
            "round": item["round"],
            "samples_ms": round_samples(samples)["iteration"],
            "peak_memory_bytes": peak_bytes,
        }


def round_samples(samples):
    """Six significant digits: finer than any clock, and half the size of a full float.

    Raises ValueError on a sample that is no time, which a broken timer may give.
    """
    rounded = {}
    for name, values in samples.items():
        if not all(math.isfinite(value) and value > 0 for value in values):
            raise ValueError(f"the timer gave {values} ms for {name}")
        rounded[name] = [float(f"{value:.6g}") for value in values]
    return rounded


def read_command(*command):
    """The standard output of a command, or an empty text where it is not there or fails."""
    try:
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, check=True
        )
        return result.stdout.decode(errors="replace").strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def cpu_model():
    match = re.search(r"^model name\s*:\s*(.+)$", read_text("/proc/cpuinfo"), re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or platform.machine()


def cpu_signature():
    """Vendor family, model and stepping: tells apart CPUs that share a generic model name."""
    text = read_text("/proc/cpuinfo")
    parts = []
    for field in ("cpu family", "model", "stepping"):
        match = re.search(rf"^{field}\s*:\s*(\S+)$", text, re.MULTILINE)
        parts.append(match.group(1) if match else "")
    return "-".join(parts)


CGROUP_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def total_memory_mib():
    """The host's memory, or what a container may use of it; None where nobody tells."""
    match = re.search(r"^MemTotal:\s*(\d+) kB", read_text("/proc/meminfo"), re.MULTILINE)
    if match is None:
        return None
    limits = [read_text(path).strip() for path in CGROUP_LIMIT_FILES]
    allowed = [int(limit) // 2**20 for limit in limits if limit.isdigit()]
    return min([int(match.group(1)) // 1024, *allowed])


GPU_STATE_FIELDS = (
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "temperature.gpu",
    "power.draw",
    "power.limit",
    "clocks_throttle_reasons.active",
    "persistence_mode",
    "mig.mode.current",
)


def gpu_state():
    """What nvidia-smi tells of the first device, by its own field names; empty without it."""
    values = read_command(
        "nvidia-smi",
        "--id=0",
        "--query-gpu=" + ",".join(GPU_STATE_FIELDS),
        "--format=csv,noheader,nounits",
    )
    if not values:
        return {}
    return dict(zip(GPU_STATE_FIELDS, (value.strip() for value in values.split(","))))


def allowed_cores():
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def cpu_record():
    return {
        "model": cpu_model(),
        "signature": cpu_signature(),
        "logical_cores": os.cpu_count(),
        "affinity": allowed_cores(),
        "memory_mib": total_memory_mib(),
        "hypervisor": "hypervisor" in read_text("/proc/cpuinfo"),
    }


def load_average():
    return list(os.getloadavg()) if hasattr(os, "getloadavg") else None


def environment(plan, torch):
    """An honest record of what the timings were taken on and with."""
    on_gpu = plan["device"].startswith("cuda")
    try:
        import torchvision

        torchvision_version = torchvision.__version__
    except ImportError:
        torchvision_version = ""
    record = {
        "type": "environment",
        "schema": SCHEMA,
        "run_id": str(uuid.uuid4()),
        "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(),
        "probe_sha256": hashlib.sha256(read_text(os.path.abspath(__file__)).encode()).hexdigest(),
        "machine": plan.get("machine", ""),
        "stack": {
            "engine": "torch",
            "framework_version": torch.__version__.split("+")[0],
            "precision": plan["stack"]["precision"],
            "cuda_version": (torch.version.cuda or "") if on_gpu else "",
            "cudnn_version": str(torch.backends.cudnn.version() or "") if on_gpu else "",
            "memory_format": plan["stack"]["memory_format"],
            "cudnn_benchmark": plan["stack"]["cudnn_benchmark"],
            "threads": torch.get_num_threads(),
        },
        "torchvision_version": torchvision_version,
        "torch_build": torch.__version__,
        "python_version": platform.python_version(),
        "os": platform.platform(),
        "cpu": {
            **cpu_record(),
            "mkldnn": torch.backends.mkldnn.is_available(),
            "flush_denormal": True,
        },
        "load_average": load_average(),
        "sampling": plan["sampling"],
        "gpu": None,
    }
    if hasattr(torch.backends, "cpu"):
        record["cpu"]["capability"] = torch.backends.cpu.get_cpu_capability()
    if on_gpu:
        properties = torch.cuda.get_device_properties(0)
        record["gpu"] = {
            "name": properties.name,
            "memory_mib": properties.total_memory // 2**20,
            "multiprocessors": properties.multi_processor_count,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "state": gpu_state(),
        }
    return record


def apply_stack(plan, torch):
    """Set threads, precision and cuDNN mode; raise PlanError on what is not there."""
    stack = plan["stack"]
    if plan["device"].startswith("cuda"):
        if not torch.cuda.is_available():
            raise PlanError("the plan asks for a CUDA device, and torch finds none here")
        torch.cuda.set_device(0)
    elif stack["precision"] != "fp32":
        raise PlanError("a CPU is measured in fp32 only")
    affinity = plan.get("cpu_affinity")
    if affinity:
        os.sched_setaffinity(0, affinity)
    if stack["threads"]:
        torch.set_num_threads(stack["threads"])
    torch.set_flush_denormal(True)
    torch.backends.cudnn.benchmark = stack["cudnn_benchmark"]
    torch.backends.cudnn.allow_tf32 = stack["precision"] != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)


def limit_host_memory(share=0.92):
    """Let an allocation that is too large fail in this process, before the kernel kills it."""
    try:
        import resource
    except ImportError:
        return
    total = total_memory_mib()
    if total:
        limit = int(total * share) * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def new_timer(plan, torch):
    if not plan["device"].startswith("cuda"):
        return CpuTimer()
    return CudaTimer(
        new_event=lambda: torch.cuda.Event(enable_timing=True),
        synchronize=torch.cuda.synchronize,
        head_start=lambda: torch.cuda._sleep(HOST_HEAD_START_CYCLES),
    )


PLAN_KEYS = {
    "stack": ("precision", "memory_format", "cudnn_benchmark", "threads"),
    "sampling": ("convolution", "iteration"),
}


def check_plan(plan):
    """Raise PlanError unless this probe understands the plan."""
    if not isinstance(plan, dict) or plan.get("schema") != SCHEMA:
        raise PlanError(f"this probe reads plans of schema {SCHEMA}")
    missing = {"device", "stack", "sampling", "time_budget_seconds", "work"} - set(plan)
    if missing:
        raise PlanError("the plan lacks " + ", ".join(sorted(missing)))
    for name, keys in PLAN_KEYS.items():
        absent = set(keys) - set(plan[name])
        if absent:
            raise PlanError(f"the plan's {name} lacks " + ", ".join(sorted(absent)))


def main():
    try:
        plan = json.load(sys.stdin)
        check_plan(plan)
        try:
            import torch
        except ImportError:
            raise PlanError("torch is not installed for this Python") from None
        apply_stack(plan, torch)
    except (PlanError, ValueError) as error:
        print(f"probe: {one_line(error)}", file=sys.stderr)
        return 2
    if plan["device"] == "cpu":
        limit_host_memory()

    def emit(line):
        line["elapsed_seconds"] = round(time.monotonic() - started, 3)
        sys.stdout.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
        sys.stdout.flush()

    started = time.monotonic()
    probe = Probe(plan, torch, new_timer(plan, torch), emit)
    signal.signal(signal.SIGTERM, lambda *_: probe.stop("signal"))
    signal.signal(signal.SIGINT, lambda *_: probe.stop("signal"))
    emit(environment(plan, torch))
    done = probe.run()
    done["load_average"] = load_average()
    done["gpu_state"] = gpu_state() if plan["device"].startswith("cuda") else {}
    emit(done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
