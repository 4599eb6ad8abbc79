"""What keeps a broker from starting."""

import pathlib
import re
import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from rmqlab.broker.config import load_config
from rmqlab.broker.main import main
from rmqlab.runtime.config.settings import SettingsError
from rmqlab.runtime.net.server import open_listener
from rmqlab.runtime.node.process import StartError
from tests.broker.brokerprocess import HOSTS, Link, World

Breaks = Callable[[World], Awaitable[None]]


async def _take_port(world: World) -> None:
    world.nursery.start_soon(_hold, open_listener(HOSTS[0], 10911))


async def _hold(taken: socket.socket) -> None:
    with taken:
        await trio.sleep_forever()


async def _lock_store(world: World) -> None:
    await world.start("a", HOSTS[2])


async def _cut_log(world: World) -> None:
    directory = world.tmp_path / "a" / "commitlog"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}").write_bytes(b"short")


async def _break_acl(world: World) -> None:
    (world.tmp_path / "conf").mkdir()
    (world.tmp_path / "conf" / "plain_acl.yml").write_text("accounts: [{accessKey: short, secretKey: 12345678}]")


async def test_with_broken_acl_files_a_broker_does_not_start(world: World) -> None:
    await _break_acl(world)
    with pytest.raises(StartError, match=r"ACL files cannot be used.*accessKey=short"):
        await main(world.settings("a", acl_enable="true"), Link())


def test_a_broker_is_known_by_where_it_listens_unless_that_is_everywhere(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broker.toml"
    for listen, known in (("127.0.0.9", "127.0.0.9"), ("0.0.0.0", "127.0.0.1")):
        path.write_text(f'listen_address = "{listen}"')
        config = load_config(path).broker
        assert (config.broker_ip1, config.broker_ip2) == (known, known)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('broker_role = "KING"', "broker_role = 'KING': expected ASYNC_MASTER, SYNC_MASTER or SLAVE"),
        ('namesrv_addr = "foo;bar:x"', "'foo' is not host:port"),
        ('broker_role = "SLAVE"', "needs one above 0"),
        ("listen_prot = 1", "did you mean listen_port"),
        ('listen_port = "many"', "listen_port = 'many': expected a whole number"),
        ('delete_when = "04;4am"', "'4am' is no hour from 00 to 23"),
        ('message_delay_level = "1s soon"', "'soon' is no time such as 10s"),
        ("mapped_file_size_commit_log = 4294967296", "mapped_file_size_commit_log = 4294967296: expected 4096 to"),
        ("max_index_num = 107374182", "an index file of 2167483680 bytes; a file has at most 2147483647"),
        ('store_path_commit_log = "/a,/b"', "a commit log in several directories is not supported"),
        ("flush_interval_commit_log = -1", "flush_interval_commit_log = -1: expected 1 to 2147483647"),
    ],
)
def test_an_invalid_setting_is_named(tmp_path: pathlib.Path, setting: str, said: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(setting)
    with pytest.raises(SettingsError, match=re.escape(said)) as raised:
        load_config(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("break_something", "said"),
    [(_take_port, f"{HOSTS[0]}:10911 is taken"), (_lock_store, "lock"), (_cut_log, "5 bytes, expected 1048576")],
    ids=["a taken port", "a locked store", "a cut log"],
)
async def test_a_start_failure_is_reported_in_one_line(world: World, break_something: Breaks, said: str) -> None:
    """store-ha#4, store-ha#6."""
    await break_something(world)
    in_one_line = pytest.RaisesExc(StartError, match=said, check=lambda error: "\n" not in str(error))
    with pytest.RaisesGroup(in_one_line, allow_unwrapped=True, flatten_subgroups=True):
        await main(world.settings("a"), Link())
