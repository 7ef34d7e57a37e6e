"""``python -m benchmarking.tracing FILE.py:function``: trace a network of one's own.

The function takes no arguments and returns a ``torch.nn.Module``. The result is the JSON of
:mod:`benchmarking.tracing.fixture`; it holds shapes and sizes, no weights and no code.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from benchmarking.suggestions import did_you_mean
from benchmarking.tracing.errors import TracingError, UntraceableError
from benchmarking.tracing.fixture import dump_traced_networks, format_traced_networks

OWN_FAMILY = "own"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; exits with 2 and one line on standard error where it cannot."""
    options = _parser().parse_args(arguments)
    try:
        import torch

        from benchmarking.tracing.tracer import NetworkTracer
    except ModuleNotFoundError as error:
        _fail(f"tracing needs {error.name}: pip install torch")
    try:
        # What the user's code prints must not get into the JSON.
        with contextlib.redirect_stdout(sys.stderr):
            factory, name = _load_factory(options.target)
            tracer = NetworkTracer(
                factory,
                slug=options.slug or _slug(name),
                family=OWN_FAMILY,
                auxiliary_weight=1.0,
                in_channels=options.channels,
            )
            networks = [tracer.trace(size) for size in sorted(set(options.image_size or [224]))]
        versions = {"torch": torch.__version__.split("+")[0]}
        if options.output is None:
            sys.stdout.write(format_traced_networks(networks, source="own", versions=versions))
        else:
            dump_traced_networks(networks, options.output, source="own", versions=versions)
    except TracingError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarking.tracing",
        description="Write the JSON that describes one training iteration of a CNN of your own. "
        "It holds shapes and sizes only: no weights, no code.",
    )
    parser.add_argument(
        "target", metavar="FILE.py:function", help="a function that returns a torch.nn.Module"
    )
    parser.add_argument(
        "--image-size",
        type=int,
        action="append",
        metavar="N",
        help="pixels; may be repeated (default: 224)",
    )
    parser.add_argument("--channels", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--slug", type=_checked_slug, help="default: the function's name")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    return parser


def _checked_slug(text: str) -> str:
    if _slug(text) != text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed: lower-case letters, digits, _ . -, at most 100"
        )
    return text


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_.-]+", "-", name.lower()).lstrip("_.-")[:100] or "network"


def _load_factory(target: str) -> tuple[Callable[[], Any], str]:
    file_name, separator, function_name = target.rpartition(":")
    if not separator or not file_name or not function_name:
        raise TracingError(f"{target!r} is not of the form FILE.py:function")
    path = Path(file_name)
    if not path.is_file():
        raise TracingError(f"{file_name}: no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TracingError(f"{file_name}: is not a Python file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's code may raise anything
        raise UntraceableError(f"{file_name}: {type(error).__name__}: {error}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        known = [name for name, value in vars(module).items() if callable(value)]
        raise TracingError(
            f"{file_name} has no function {function_name!r}{did_you_mean(function_name, known)}"
        )
    return function, function_name


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    raise SystemExit(2)


if __name__ == "__main__":
    main()
