"""The admin pages of this floor; Django finds them by importing this package."""

from benchmarking.admin import architectures, instances, jobs, machines, measurements, remote_hosts

__all__ = ["architectures", "instances", "jobs", "machines", "measurements", "remote_hosts"]
