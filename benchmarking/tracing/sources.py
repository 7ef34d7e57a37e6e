"""The architecture sources by name; looking one up does not import torch."""

from __future__ import annotations

import importlib

from benchmarking.tracing.source import ArchitectureSource

SOURCES = {"torchvision": "benchmarking.tracing.torchvision_source:TorchvisionSource"}
"""Name on the command line -> ``module:class``; a new source is one file and one line here."""


def load_source(name: str) -> ArchitectureSource:
    """The source of that name; ``KeyError`` if unknown, ``ImportError`` if a package is missing."""
    module_name, class_name = SOURCES[name].split(":")
    source: ArchitectureSource = getattr(importlib.import_module(module_name), class_name)()
    return source
