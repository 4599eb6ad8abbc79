"""Fixtures that more than one folder of tests uses, and what holds for all of them."""

import os
import pathlib
import socket
from collections.abc import Callable, Iterable, Mapping

import hypothesis
import pytest
from hypothesis import strategies as st

from remoting.settings import snake
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


# ---- settings as somebody might send them with requests 25 and 318 (issue 12.1) ----------------------------

HOSTILE_VALUES = (
    "1", "0", "-1", "-5", "true", "9" * 30, "1e999", "nan", "x", "", "../../x", "/tmp/elsewhere", "127.0.0.1", "SLAVE",
    "a\\nconfigStorePath=/tmp/x", "a\\u000aconfigStorePath=/tmp/x", "a\\\\", "a\\", "\\ud800", "\\ud83d\\ude00",
    "\\u0000", "\\ a", "#a", "a=b", "a\\rb", "\\u2028", '"', "'''",
)  # fmt: skip


def _misspelt(key: str) -> Iterable[str]:
    escaped = f"\\u{ord(key[0]):04x}{key[1:]}"
    return (
        key,
        key,
        key,
        snake(key),
        key[0].upper() + key[1:],
        f"\\ {key}",
        f"{key}\\ ",
        escaped,
        f"{key}\\n",
        key.upper(),
    )


def _bodies(keys: Iterable[str]) -> st.SearchStrategy[bytes]:
    """Lines of settings, or any bytes."""
    spelt = st.sampled_from(sorted(keys)).flatmap(lambda key: st.sampled_from([*_misspelt(key)]))
    values = st.one_of(st.sampled_from(HOSTILE_VALUES), st.text(max_size=8), st.integers().map(str))
    separators = st.sampled_from(("=", ":", " ", " = "))
    line = st.tuples(spelt, separators, values).map("".join)
    text = st.lists(st.one_of(line, st.text(max_size=8)), max_size=6).map("\n".join)
    return st.one_of(text.map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=40))


def _files_below(directory: pathlib.Path, *but: pathlib.Path) -> Mapping[str, bytes]:
    """What lies there: the content of each file, but for some and what is kept beside them."""
    own = {f"{path}{suffix}" for path in but for suffix in ("", ".bak")}
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file() and str(path) not in own}


@pytest.fixture
def hostile_settings() -> Callable[[Iterable[str]], st.SearchStrategy[bytes]]:
    """Makes bodies of requests 25 and 318 from settings' names: many spellings, values that break lines, any bytes."""
    return _bodies


@pytest.fixture
def files_below() -> Callable[..., Mapping[str, bytes]]:
    """Reads all files below a directory, but for some and their `.bak`."""
    return _files_below
