import contextlib
import os
import pathlib
import socket
import sys
from collections.abc import Iterator

import attrs
import pytest

from rmqlab.cluster.supervisor import address_allocation
from rmqlab.cluster.supervisor.address_allocation import allocate_addresses
from rmqlab.cluster.supervisor.files.directory import AlreadyUpError, ClusterDirectory, Record, SetupError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, nodes_of, workload_host
from rmqlab.cluster.supervisor.ports import (
    PortTakenError,
    check_free,
    find_holder,
    has_loopback_network,
    loopback_network,
)

needs_loopback_network = pytest.mark.skipif(sys.platform != "linux", reason="127.77.x.y exists on Linux only")


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> ClusterDirectory:
    made = ClusterDirectory(tmp_path / "home" / "one")
    made.create()
    return made


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
        yield listener


@needs_loopback_network
def test_two_clusters_get_addresses_of_their_own(directory: ClusterDirectory) -> None:
    other = ClusterDirectory(directory.path.with_name("two"))
    with (
        allocate_addresses(ClusterSpec(), directory, None) as first,
        allocate_addresses(ClusterSpec(), other, None) as second,
    ):
        assert first.placement.subnet != second.placement.subnet


@needs_loopback_network
def test_a_cluster_that_is_down_keeps_its_addresses(directory: ClusterDirectory) -> None:
    with allocate_addresses(ClusterSpec(), directory, None) as first:
        pass
    directory.write_record(Record(spec=ClusterSpec(), placement=first.placement))
    other = ClusterDirectory(directory.path.with_name("two"))
    for _ in range(3):
        with allocate_addresses(ClusterSpec(), other, None) as second:
            assert second.placement.subnet != first.placement.subnet
    with allocate_addresses(ClusterSpec(), directory, directory.read_record()) as again:
        assert again == first


@needs_loopback_network
def test_a_recorded_place_that_is_taken_is_an_error_that_names_the_holder(directory: ClusterDirectory) -> None:
    spec = ClusterSpec()
    with allocate_addresses(spec, directory, None) as found:
        pass
    record = Record(spec=spec, placement=found.placement)
    node = nodes_of(spec, found.placement)[1]
    with (
        listening(node.host, 10912),
        pytest.raises(PortTakenError) as caught,
        allocate_addresses(spec, directory, record),
    ):
        pass
    assert f"broker-a: {node.host}:10912 is taken by pid {os.getpid()}, " in str(caught.value)
    assert pathlib.Path(sys.executable).name in str(caught.value)


@needs_loopback_network
def test_from_a_network_that_another_cluster_has_claimed_it_moves_and_says_so(directory: ClusterDirectory) -> None:
    """Issue 12.12. Each node keeps its number."""
    spec = ClusterSpec(slaves=2)
    with allocate_addresses(spec, directory, None) as other:
        record = Record(spec=spec, placement=attrs.evolve(other.placement, slots={"broker-a": 77}))
        with allocate_addresses(spec, directory, record) as moved:
            before, now = (f"{it.placement.network}.{it.placement.subnet}.*" for it in (other, moved))
            assert now != before
            assert moved.placement.slots["broker-a"] == 77
            assert f"moved from {before} to {now}: the addresses of cluster one, {before}, are claimed" in moved.note
            assert "\n" not in moved.note
            assert other.note == ""


@needs_loopback_network
def test_the_reason_is_reported_where_no_other_network_is_free(
    directory: ClusterDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ClusterSpec()
    with allocate_addresses(spec, directory, None) as other:
        record = Record(spec=spec, placement=other.placement)
        monkeypatch.setattr(address_allocation, "_SUBNETS", range(0))
        with (
            pytest.raises(PortTakenError, match=r"are claimed by another cluster.*no other is free"),
            allocate_addresses(spec, directory, record),
        ):
            pass


def test_at_a_single_address_clusters_shift_their_ports(
    directory: ClusterDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address_allocation, "has_loopback_network", lambda: False)
    with allocate_addresses(ClusterSpec(), directory, None) as first:
        assert first.placement.subnet is None
        directory.write_record(Record(spec=ClusterSpec(), placement=first.placement))
    other = ClusterDirectory(directory.path.with_name("two"))
    with allocate_addresses(ClusterSpec(), other, None) as second:
        assert second.placement.shift != first.placement.shift


def test_a_place_at_a_single_address_is_held_before_anything_listens(
    directory: ClusterDirectory, tmp_path: pathlib.Path
) -> None:
    spec, elsewhere = ClusterSpec(single_address=True), ClusterDirectory(tmp_path / "another home" / "one")
    with allocate_addresses(spec, directory, None) as first:
        with allocate_addresses(spec, elsewhere, None) as second:
            assert second.placement.shift != first.placement.shift
        record = Record(spec=spec, placement=first.placement)
        with allocate_addresses(spec, directory, record) as third:
            assert f"127.0.0.1 with ports shifted by {first.placement.shift} to 127.0.0.1" in third.note
            assert third.placement.shift != first.placement.shift


@needs_loopback_network
def test_addresses_begin_with_what_the_environment_says_and_recorded_ones_stay(
    directory: ClusterDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ClusterSpec()
    with allocate_addresses(spec, directory, None) as before:
        hosts = [node.host for node in nodes_of(spec, before.placement)]
    assert all(host.startswith(f"{before.placement.network}.{before.placement.subnet}.") for host in hosts)
    monkeypatch.delenv("RMQLAB_NETWORK", raising=False)
    assert loopback_network() == "127.77"
    monkeypatch.setenv("RMQLAB_NETWORK", "127.254")
    with allocate_addresses(spec, directory, Record(spec=spec, placement=before.placement)) as again:
        assert again == before
    with allocate_addresses(spec, directory, None) as fresh:
        assert fresh.placement.network == "127.254"
        assert workload_host(fresh.placement, 0) == f"127.254.{fresh.placement.subnet}.240"


@pytest.mark.parametrize("wrong", ["127.255", "127.0", "127.077", "10.1", "127.77.1", "here"])
def test_an_invalid_loopback_network_is_an_error(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("RMQLAB_NETWORK", wrong)
    with pytest.raises(SetupError, match=f"'{wrong}': expected 127.1 to 127.254"):
        has_loopback_network()


def test_connections_that_linger_do_not_take_a_port(own_host: str) -> None:
    with listening(own_host, 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(listener.getsockname()) as client:
            accepted, _ = listener.accept()
            accepted.close()  # the server's side closes first, and lingers
            client.recv(1)
    node = nodes_of(ClusterSpec(), Placement(slots={"namesrv-1": 1, "broker-a": 20, "broker-a-s": 21}))[0]
    check_free([type(node)(name="x", kind=node.kind, host=own_host, port=port)])


@pytest.mark.skipif(not pathlib.Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")
def test_a_listener_at_all_addresses_is_found_too() -> None:
    with listening("0.0.0.0", 0) as listener:
        assert find_holder("127.0.0.1", listener.getsockname()[1]).startswith(f"pid {os.getpid()}, ")


def test_one_supervisor_at_a_time(directory: ClusterDirectory) -> None:
    with directory.locked():
        assert directory.is_up()
        with pytest.raises(AlreadyUpError, match=f"one is already up.*pid {os.getpid()}"), directory.locked():
            pass
    assert not directory.is_up()
    assert directory.path.stat().st_mode & 0o777 == 0o700


def test_sockets_of_a_deep_directory_live_in_a_short_one(tmp_path: pathlib.Path) -> None:
    deep = ClusterDirectory(tmp_path / ("d" * 100) / "one")
    other = ClusterDirectory(tmp_path / ("d" * 100) / "two")
    assert len(os.fsencode(deep.control_socket)) < 104
    assert len({deep.control_socket, deep.command_socket, other.control_socket}) == 3
    assert deep.control_socket.parent.stat().st_mode & 0o777 == 0o700
