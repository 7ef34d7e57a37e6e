"""Any machine that answers over SSH. Importing this loads paramiko, so it is imported at use."""

from benchmarking.hosts.ssh.connection import SshTarget
from benchmarking.hosts.ssh.host import SshHost

__all__ = ["SshHost", "SshTarget"]
