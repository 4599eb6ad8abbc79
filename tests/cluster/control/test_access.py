import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.control.access import (
    TOKEN_VARIABLE,
    ControlAccess,
    ControlAddress,
    ControlAddressError,
    access_to,
    chosen_token,
    listening_socket,
    parse_control_address,
    write_access,
)

ACCESS = ControlAccess(url="http://127.0.0.1:1", token="t" * 20, host="lab.example")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("8080", "127.0.0.1", 8080),
        (":8080", "127.0.0.1", 8080),
        ("0.0.0.0:1", "0.0.0.0", 1),
        ("[::1]:65535", "::1", 65535),
        ("lab.example:80", "lab.example", 80),
    ],
)
def test_an_address_is_on_loopback_unless_it_says_otherwise(text: str, host: str, port: int) -> None:
    assert parse_control_address(text) == ControlAddress(host, port)


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "x:", "x:y", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:٣", "9" * 6000]
)
def test_an_invalid_address_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ControlAddressError, match=r"expected HOST:PORT, such as 127\.0\.0\.1:0"):
        parse_control_address(text)


def test_a_token_is_random_unless_the_environment_has_a_strong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert len({chosen_token() for _ in range(10)}) == 10
    assert len(chosen_token()) >= 40
    monkeypatch.setenv(TOKEN_VARIABLE, "0123456789abcdef")
    assert chosen_token() == "0123456789abcdef"
    for weak in ("", "short", "0123456789 abcdef", "0123456789abcdé!", "x" * 600):
        monkeypatch.setenv(TOKEN_VARIABLE, weak)
        with pytest.raises(ControlAddressError, match="expected 16 to 512 characters"):
            chosen_token()


@pytest.mark.parametrize("given", ["Bearer " + "t" * 20, "bearer " + "t" * 20, "BEARER  " + "t" * 20])
def test_the_token_is_accepted_as_a_bearer(given: str) -> None:
    assert ACCESS.accepts_token(given)


@given(st.none() | st.text() | st.sampled_from(["t" * 20, "Basic " + "t" * 20, "Bearer " + "t" * 19, "Bearer"]))
def test_no_other_token_is_accepted(given: str | None) -> None:
    assert not ACCESS.accepts_token(given)


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:80", "127.0.0.1:1", "10.1.2.3", "[::1]:8080", "Lab.Example:80"]
)
def test_addresses_and_our_own_names_are_hosts(host: str) -> None:
    assert ACCESS.accepts_host(host)


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil", "[evil]", "::1"]
)
def test_other_names_are_no_hosts(host: str | None) -> None:
    """A page of evil.example can let that name point at 127.0.0.1."""
    assert not ACCESS.accepts_host(host)


def test_a_taken_port_and_an_unknown_host_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ControlAddressError, match=f"127.0.0.1:{port}: Address already in use"):
            listening_socket(ControlAddress("127.0.0.1", port), 1)
    with pytest.raises(ControlAddressError, match=r"no\.such\.host\.invalid: "):
        listening_socket(ControlAddress("no.such.host.invalid", 0), 1)
    for host in ("a..b", "a" * 70):
        with pytest.raises(ControlAddressError, match=f"{host}: expected a host name or an IP address"):
            listening_socket(ControlAddress(host, 0), 1)


def test_the_file_of_address_and_token_is_private(tmp_path: Path) -> None:
    path = tmp_path / "cluster" / "control.json"
    with listening_socket(ControlAddress("127.0.0.1", 0), 1) as listening:
        access = access_to(listening, ControlAddress("127.0.0.1", 0), "t" * 20)
    write_access(path, access)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == f'{{"url": "{access.url}", "token": "{"t" * 20}"}}\n'
    assert "t" * 20 not in repr(access)


def test_without_the_option_nothing_of_the_control_api_is_loaded() -> None:
    program = (
        "import sys, rmqlab.cluster.__main__, rmqlab.cluster.supervisor.serve\n"
        "print([name for name in sys.modules if name == 'h11' or name.startswith('rmqlab.cluster.control')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
