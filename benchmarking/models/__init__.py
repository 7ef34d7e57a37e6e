"""Everything that can be measured, where, and every measurement taken."""

from benchmarking.models.architectures import Architecture, ArchitectureLayer, ConvolutionLayer
from benchmarking.models.heartbeats import Heartbeat
from benchmarking.models.instances import CloudInstance
from benchmarking.models.jobs import BenchmarkJob, JobEvent
from benchmarking.models.machines import Device, Machine, Price
from benchmarking.models.measurements import (
    FailedTiming,
    IterationTiming,
    LayerTiming,
    MeasurementRun,
    SoftwareStack,
)
from benchmarking.models.remote_hosts import RemoteHost
from benchmarking.models.requests import MeasurementRequest, WorkClaim
from benchmarking.models.secrets import JobSecret

__all__ = [
    "Architecture",
    "ArchitectureLayer",
    "BenchmarkJob",
    "CloudInstance",
    "ConvolutionLayer",
    "Device",
    "FailedTiming",
    "Heartbeat",
    "IterationTiming",
    "JobEvent",
    "JobSecret",
    "LayerTiming",
    "Machine",
    "MeasurementRequest",
    "MeasurementRun",
    "Price",
    "RemoteHost",
    "SoftwareStack",
    "WorkClaim",
]
