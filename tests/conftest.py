"""Fixtures shared by several folders of tests, and settings for all tests."""

import gc
import os
import pathlib
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import hypothesis
import pytest

from rmqlab.runtime.config.settings import snake
from rmqlab.store.files.disk import Disk

# A deadline judges the machine, not the code. The errors of one change must not appear in another's run.
hypothesis.settings.register_profile("rmqlab", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("rmqlab")


@pytest.fixture(autouse=True)
def roomy_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the disk appear less than half full to stores in this process."""
    monkeypatch.setattr(Disk, "used_percent", lambda _disk, path: 40 if path.exists() else -1)


@pytest.fixture
def read_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of bytes of each read (`os.pread`)."""
    sizes: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        data = pread(descriptor, size, offset)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    return sizes


DESCRIPTORS = pathlib.Path("/proc/self/fd")
"""The descriptors of this process, on Linux."""
SPARE_DESCRIPTORS = 32
"""A test may leave so many to the garbage collector."""


@pytest.fixture(autouse=True)
def descriptors_closed() -> Iterator[None]:
    """Fail a test that leaves descriptors open.

    Later tests would fail for no fault of theirs: `select` takes no descriptor beyond 1,023.
    """
    if not DESCRIPTORS.exists():
        yield
        return
    before = len(list(DESCRIPTORS.iterdir()))
    yield
    if len(list(DESCRIPTORS.iterdir())) > before + SPARE_DESCRIPTORS:
        gc.collect()
        left = len(list(DESCRIPTORS.iterdir())) - before
        assert left <= SPARE_DESCRIPTORS, f"{left} descriptors are left open"


NETWORKS = [f"127.{number}" for number in range(100, 254)]
_CLAIM_PORT = 9876


def _claim_network() -> socket.socket | None:
    """Give this process's tests and clusters a loopback network of their own.

    Others may test on this machine at the same time: other workers of this run, other runs. Whoever starts a cluster
    again, or a server at its former port, must find its addresses free. On Linux only: elsewhere there is one address.
    Return what holds the claim until it is closed.
    """
    for step in range(len(NETWORKS)):
        network = NETWORKS[(os.getpid() + step) % len(NETWORKS)]
        claim = socket.socket()
        try:
            claim.bind((f"{network}.0.254", _CLAIM_PORT))
        except OSError:
            claim.close()
            continue
        os.environ["RMQLAB_NETWORK"] = network
        return claim
    return None


# At once, because the conftest of a folder may be imported before any hook is called, and read the network.
_claim = _claim_network()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-traces", action="store_true", help="Write what text traces give now, for a reader to compare."
    )


@pytest.fixture(scope="session")
def own_host() -> str:
    """Return an unused address, at which closed ports stay free."""
    network = os.environ.get("RMQLAB_NETWORK")
    return f"{network}.0.9" if network else "127.0.0.1"


def pytest_unconfigure() -> None:
    if _claim is not None:
        _claim.close()


# ---- settings as somebody might send them with requests 25 and 318 (issue 12.1) ----------------------------

HOSTILE_VALUES = (
    "1", "0", "-1", "-5", "true", "9" * 30, "1e999", "nan", "x", "", "../../x", "/tmp/elsewhere", "127.0.0.1", "SLAVE",
    "a\\nconfigStorePath=/tmp/x", "a\\u000aconfigStorePath=/tmp/x", "a\\\\", "a\\", "\\ud800", "\\ud83d\\ude00",
    "\\u0000", "\\ a", "#a", "a=b", "a\\rb", "\\u2028", '"', "'''",
)  # fmt: skip


def _spellings(key: str) -> Sequence[str]:
    escaped = f"\\u{ord(key[0]):04x}{key[1:]}"
    odd = (snake(key), key[0].upper() + key[1:], f"\\ {key}", f"{key}\\ ", escaped, f"{key}\\n", key.upper())
    return (key,) * len(odd) + odd


def _body(keys: Iterable[str], lines: Iterable[tuple[int, int, int, str]]) -> bytes:
    known, text = sorted(keys), ""
    for key, spelling, value, other in lines:
        spellings = _spellings(known[key % len(known)])
        values = (*HOSTILE_VALUES, other)
        text += f"{spellings[spelling % len(spellings)]}{'=: '[value % 3]}{values[value % len(values)]}\n"
    return text.encode("utf-8", "replace")


def _files_below(directory: pathlib.Path, *but: pathlib.Path) -> Mapping[str, bytes]:
    """Return the content of the files below a directory, with exceptions.

    The exceptions are the given files and the files kept beside them.
    """
    own = {f"{path}{suffix}" for path in but for suffix in ("", ".bak")}
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file() and str(path) not in own}


@pytest.fixture
def hostile_settings() -> Callable[[Iterable[str], Iterable[tuple[int, int, int, str]]], bytes]:
    """Return a generator of request bodies (25, 318) with hostile settings.

    Names have many spellings, and values break lines. Each line is given by three numbers of any size, which choose
    key, spelling and value, and a text that may be the value.
    """
    return _body


@pytest.fixture
def files_below() -> Callable[..., Mapping[str, bytes]]:
    """Reads all files below a directory, but for some and their `.bak`."""
    return _files_below
