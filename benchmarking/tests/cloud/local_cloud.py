"""A cloud on this computer: a played EC2 whose instances are real SSH servers on loopback.

Each launched instance comes up as a ``FakeMachine`` at the instance's address, with the host key
and the login key out of the user data that was really sent, and goes down with it.
"""

from __future__ import annotations

import getpass
import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarking.tests.cloud.front import CloudFront
from benchmarking.tests.cloud.launches import Launch
from benchmarking.tests.ports import free_port
from benchmarking.tests.sshd import FakeMachine

REGION = "us-east-1"
INSTANCE_TYPE = "c5.xlarge"
"""Without a GPU, as this computer; a type that the played EC2 offers."""

WORKER_CIDR = "127.0.0.1/32"


class LocalCloud:
    """A context manager; everything that it started has ended after it.

    Parameters
    ----------
    folder
        For the machines' files.
    machine_values
        Arguments of each ``FakeMachine``, such as ``probe=None`` for the real probe.

    Attributes
    ----------
    machine_values
        As given; a change is for the machines launched from then on.
    front
        The played EC2.
    machines
        Those that are up, by instance id.
    """

    def __init__(self, folder: Path, *, port: int = 0, **machine_values: Any) -> None:
        self._folder = folder
        self.machine_values = machine_values
        self._lock = threading.Lock()
        self.machines: dict[str, FakeMachine] = {}
        self.ssh_port = free_port("0.0.0.0")
        self.front = CloudFront(port, on_launch=self._switch_on, on_end=self._switch_off)

    def __enter__(self) -> LocalCloud:
        self.front.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.front.stop()
        for machine in list(self.machines.values()):
            machine.stop()

    def environment(self, var_folder: Path) -> Mapping[str, str]:
        """The variables of an installation in ``var_folder`` that may launch here, up to 1 USD."""
        return {
            "EPOCHCAST_VAR_DIR": str(var_folder),
            "AWS_ACCESS_KEY_ID": "played",
            "AWS_SECRET_ACCESS_KEY": "played",
            "AWS_EC2_METADATA_DISABLED": "true",
            "BENCHMARK_USD_PER_MONTH": "1",
            "EC2_CONSISTENCY_SECONDS": "5",
            "EC2_ENDPOINT_URL": self.front.url,
            "EC2_PYTHON": "python3",
            "EC2_REGIONS": REGION,
            "EC2_SSH_PORT": str(self.ssh_port),
            "EC2_USER": getpass.getuser(),
            "EC2_WORKER_CIDR": WORKER_CIDR,
        }

    def _switch_on(self, launch: Launch) -> None:
        if not launch.user_data:
            # By hand; nobody could log in.
            return
        machine = FakeMachine.from_user_data(
            self._folder / launch.instance_id,
            launch.user_data,
            address=launch.address,
            port=self.ssh_port,
            **{"python": sys.executable, **self.machine_values},
        )
        machine.start()
        with self._lock:
            self.machines[launch.instance_id] = machine

    def _switch_off(self, launch: Launch) -> None:
        with self._lock:
            machine = self.machines.pop(launch.instance_id, None)
        if machine is not None:
            machine.stop()
            shutil.rmtree(machine.folder, ignore_errors=True)
