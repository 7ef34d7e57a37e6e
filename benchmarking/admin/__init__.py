"""The admin pages of this floor; Django finds them by importing this package."""

from benchmarking.admin import architectures, machines

__all__ = ["architectures", "machines"]
