"""Hostile requests 25: only legal changes are saved, no other file changes.

Source: issue 12.1.
"""

import itertools
import pathlib
from collections.abc import Callable, Iterable, Mapping

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqlab.broker.config import KINDS, BrokerSettings, load_config
from rmqlab.broker.profiles import PROFILES
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.properties import parse_properties_text
from rmqlab.runtime.config.settings import camel, setting_fields, settings_lines

Opener = Callable[..., TalkingBroker]
KNOWN = setting_fields(*KINDS)
FIXED_KEYS = [key for key, field in KNOWN.items() if field.metadata.get("is_fixed")]
NAMED = [*(KNOWN.keys() - {"brokerRole"}), *[*FIXED_KEYS, "brokerConfigPath"] * 30]
"""Keys of requests, those that must not change as often as all others. The role is a matter of the next start."""
Lines = list[tuple[int, int, int, str]]
Hostile = Callable[[Iterable[str], Lines], bytes]
LINES = st.lists(st.tuples(*[st.integers(0, 999)] * 3, st.text(max_size=8)), max_size=3)
FilesBelow = Callable[..., Mapping[str, bytes]]
HARDENED = PROFILES["hardened"]


def all_lines(loaded: BrokerSettings) -> dict[str, str]:
    return settings_lines(loaded.broker, loaded.store, loaded.ha, loaded.unused)


class Target:
    """A broker, and its settings before each request.

    No attrs class: hypothesis would print all of the broker.
    """

    def __init__(self, talk: TalkingBroker, path: pathlib.Path) -> None:
        self.talk, self.path = talk, path
        self.settings, self.text = talk.broker.settings, path.read_text()

    def reset(self) -> None:
        self.path.write_text(self.text)
        self.talk.broker.reconfigure(self.settings)


@pytest.fixture(params=["broker.toml", "broker.conf"])
def target(request: pytest.FixtureRequest, open_broker: Opener) -> Target:
    """A broker whose settings file is TOML, or one of RocketMQ's."""
    talk = open_broker()
    settings = talk.broker.settings
    path = pathlib.Path(settings.source.source).with_name(request.param)
    talk.broker.settings = attrs.evolve(settings, source=attrs.evolve(settings.source, source=str(path)))
    talk.broker.settings.save()
    return Target(talk, path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(lines=LINES, raw=st.binary(max_size=20))
def test_only_what_was_legally_changed_is_saved(
    target: Target, hostile_settings: Hostile, files_below: FilesBelow, lines: Lines, raw: bytes
) -> None:
    body = hostile_settings(NAMED, lines) or raw
    target.reset()
    path = target.path
    before, files = all_lines(load_config(path)), files_below(path.parent, path)
    reply = target.talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, body)
    after = all_lines(load_config(path))
    assert files_below(path.parent, path) == files
    changed = {key for key in after if after[key] != before.get(key)}
    if reply.code == ResponseCode.SUCCESS:
        asked = parse_properties_text(body.decode())
        assert changed <= asked.keys() | _follows(asked)
    else:
        assert not changed
    assert not {key for key in changed if KNOWN[key].metadata.get("is_fixed")}


def _follows(asked: dict[str, str]) -> set[str]:
    """What other settings have as their default changes with them."""
    follows = {
        "listenAddress": {"brokerIP1", "brokerIP2"},
        "brokerIP1": {"brokerIP2"},
        "profile": set(map(camel, HARDENED)),
    }
    return {*itertools.chain.from_iterable(follows.get(key, ()) for key in asked)}


@pytest.mark.parametrize(
    "key",
    ["storePathRootDir", "storePathCommitLog", "store_path_commit_log", "storePathDLedgerCommitLog", "RocketmqHome"],
)
def test_no_path_is_changed_by_a_request_whatever_the_black_list_says(open_broker: Opener, key: str) -> None:
    talk = open_broker(config_black_list="")
    reply = talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, f"regionId=y\n{key}=/tmp/elsewhere".encode())
    assert (reply.code, talk.broker.config.region_id) == (ResponseCode.NO_PERMISSION, "DefaultRegion")


def test_a_period_that_would_end_the_broker_is_refused(talk: TalkingBroker) -> None:
    """issue 12.5: it was saved, and trio.sleep raised at each start."""
    reply = talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"flushConsumerOffsetInterval=-5")
    assert (reply.code, talk.broker.config.flush_consumer_offset_interval) == (ResponseCode.SYSTEM_ERROR, 5000)
    assert reply.remark
    assert "flush_consumer_offset_interval = -5: expected 1 to" in reply.remark


def test_a_default_that_follows_from_a_change_is_judged_as_well(talk: TalkingBroker) -> None:
    """broker_ip1 is the listening address unless it is set: the next start would fail."""
    reply = talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"listenAddress=broker-a")
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == "read again from its file: broker_ip1 = 'broker-a': expected an IP address"


def test_unknown_settings_are_not_journalled(talk: TalkingBroker) -> None:
    """A journal entry, like a control message, has a limit."""
    body = b"regionId=y\n" + b"x" * 100_000 + b"=1"
    assert talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, body).code == ResponseCode.SUCCESS
    assert talk.events[-1][1]["changes"] == {"regionId": "y"}


def test_a_body_without_bound_is_refused(talk: TalkingBroker) -> None:
    reply = talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"a=1\n" * 50_000)
    assert (reply.code, reply.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "200000 bytes of settings: expected at most 131072",
    )
