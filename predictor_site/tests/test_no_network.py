"""No test reaches another computer."""

from __future__ import annotations

import socket

import pytest
from pytest_socket import SocketConnectBlockedError

# It warns too, for tests that catch everything.
pytestmark = pytest.mark.filterwarnings("ignore:A test tried to use socket")


@pytest.mark.parametrize("address", ["192.0.2.1", "169.254.169.254", "10.0.0.1", "128.0.0.1"])
def test_other_computers_cannot_be_reached(address: str) -> None:
    with socket.socket() as connection, pytest.raises(SocketConnectBlockedError):
        connection.connect((address, 80))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "127.3.2.1"])
def test_every_loopback_address_can(address: str) -> None:
    with socket.socket() as listener, socket.socket() as connection:
        listener.bind((address, 0))
        listener.listen()
        connection.connect(listener.getsockname())
        assert connection.getpeername() == listener.getsockname()


def test_names_are_looked_up_nowhere_else() -> None:
    with socket.socket() as connection, pytest.raises(SocketConnectBlockedError):
        connection.connect(("example.invalid", 80))
