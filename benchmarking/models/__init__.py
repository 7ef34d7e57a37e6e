"""Everything that can be measured, where, and every measurement taken."""

from benchmarking.models.architectures import Architecture, ArchitectureLayer, ConvolutionLayer
from benchmarking.models.jobs import BenchmarkJob, JobEvent
from benchmarking.models.machines import Device, Machine, Price
from benchmarking.models.measurements import (
    FailedTiming,
    IterationTiming,
    LayerTiming,
    MeasurementRun,
    SoftwareStack,
)

__all__ = [
    "Architecture",
    "ArchitectureLayer",
    "BenchmarkJob",
    "ConvolutionLayer",
    "Device",
    "FailedTiming",
    "IterationTiming",
    "JobEvent",
    "LayerTiming",
    "Machine",
    "MeasurementRun",
    "Price",
    "SoftwareStack",
]
