"""Fixtures that more than one folder of tests uses, and what holds for all of them."""

import os
import socket

import hypothesis
import pytest

from store.disk import Disk

# A deadline judges the machine, not the code. What a change broke must not show in somebody else's.
hypothesis.settings.register_profile("rmqlab", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("rmqlab")


@pytest.fixture(autouse=True)
def roomy_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk of whoever runs the tests be less than half full, as far as stores in this process can see."""
    monkeypatch.setattr(Disk, "used_percent", lambda _disk, path: 40 if path.exists() else -1)


NETWORKS = [f"127.{number}" for number in range(100, 254)]
_CLAIM_PORT = 9876
_claim = pytest.StashKey[socket.socket]()


def pytest_configure(config: pytest.Config) -> None:
    """Let the tests of this process, and the clusters they start, have a loopback network to themselves.

    Others may test on this machine at the same time: other workers of this run, other runs. Whoever starts a cluster
    again, or a server at its former port, must find its addresses free. On Linux only: elsewhere there is one address.
    """
    for step in range(len(NETWORKS)):
        network = NETWORKS[(os.getpid() + step) % len(NETWORKS)]
        claim = socket.socket()
        try:
            claim.bind((f"{network}.0.254", _CLAIM_PORT))  # held until this process ends
        except OSError:
            claim.close()
            continue
        config.stash[_claim] = claim
        os.environ["RMQLAB_NETWORK"] = network
        return


@pytest.fixture(scope="session")
def own_host() -> str:
    """An address at which nobody else listens, and from which nobody speaks: a port that was closed stays free there."""
    network = os.environ.get("RMQLAB_NETWORK")
    return f"{network}.0.9" if network else "127.0.0.1"


def pytest_unconfigure(config: pytest.Config) -> None:
    if _claim in config.stash:
        config.stash[_claim].close()
