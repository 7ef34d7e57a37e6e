"""The shipped catalogue of devices, machines, prices and architectures, and what reads it."""
