"""What the options of the source `rocketmq` accept, and how they refuse the rest."""

import os

import pytest

from rmqlab.client.config import ClientConfig
from rmqlab.pipeline.options import OptionError, bind_options
from rmqlab.pipeline.topics import topicoptions
from rmqlab.pipeline.topics.topicoptions import MEANT, NAME, TopicOptions

ASSIGNED = '{"t": {"b": [0]}}'
TIMES = '{"t": {"b": {"0": 5}}}'
SERVER = {"nameServer": "10.0.0.1:9876"}


def bound(**options: str) -> TopicOptions:
    return bind_options(TopicOptions, {**SERVER, **options}, source=NAME)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a", ("a",)),
        ("a || b", ("a", "b")),
        (" a||b ||c", ("a", "b", "c")),
        ("a || ", ("a",)),
        ("*", ()),
        (" * ", ()),
    ],
)
def test_tags_are_written_as_for_a_subscription(text: str, tags: tuple[str, ...]) -> None:
    assert bound(tags=text).tags == tags


@pytest.mark.parametrize("text", ["a, b", "a | b", "a || *", "||", " ", "a && b", "a b", "'a'", "a ||| b", "a OR b"])
def test_an_invalid_tag_expression_is_rejected(text: str) -> None:
    with pytest.raises(OptionError, match=r"option tags is .*: expected tags separated by `\|\|`"):
        bound(tags=text)


@pytest.mark.parametrize("server", ["a:1", "a:1;b:2", "a.b-c_d:9876; 10.0.0.2:9876", "[::1]:9876"])
def test_name_servers_are_hosts_with_ports(server: str) -> None:
    assert bound(nameServer=server).name_server == server


@pytest.mark.parametrize(
    "server", ["a", "a:1,b:2", "a:1;", "a:0", "a:65536", "http://a:1", "a:1 b:2", "a:1;b", ":1", "a:b:1", "a:٣"]
)
def test_other_name_servers_are_refused(server: str) -> None:
    with pytest.raises(OptionError, match=r"option nameServer is .*: expected host:port, several separated by `;`"):
        bound(nameServer=server)


def test_a_comma_between_name_servers_is_refused_with_the_list_that_was_meant() -> None:
    with pytest.raises(OptionError, match="did you mean a:1;b:2"):
        bound(nameServer="a:1, b:2")


def test_the_name_servers_of_the_environment_are_held_to_the_same_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1,b:2")
    with pytest.raises(OptionError, match="environment's NAMESRV_ADDR is 'a:1,b:2': expected host:port"):
        bind_options(TopicOptions, {}, source=NAME)


@pytest.mark.parametrize("options", [{"txnAppId": "billing"}, {"txnVersion": "3"}])
def test_one_half_of_a_transaction_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="options txnAppId and txnVersion belong together"):
        bound(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"txnAppId": "a\x01b"}, "option txnAppId is .*: expected 1 to 128 letters"),
        ({"txnAppId": " "}, "option txnAppId is .*: expected 1 to 128 letters"),
        ({"txnVersion": "-1"}, "option txnVersion is '-1': expected at least 0"),
        ({"txnApId": "a"}, "no option txnApId; did you mean txnAppId?"),
        ({"assign": '{"broker-a": [0]}'}, "option assign is .*: expected"),
        ({"assign": ASSIGNED, "brokers": "b"}, "options assign and brokers exclude each other"),
        ({"asign": ASSIGNED}, "no option asign; did you mean assign?"),
        (
            {"startingOffsets": "earliest", "startingOffsetsByTimestamp": TIMES},
            "options startingOffsets and startingOffsetsByTimestamp exclude each other",
        ),
        (
            {"endingTimestamp": "5", "endingOffsetsByTimestamp": TIMES},
            "options endingTimestamp and endingOffsetsByTimestamp exclude each other",
        ),
        (
            {"startingOffsetsByTimestamp": TIMES, "endingTimestamp": "4"},
            "t@b:0 would begin at 5 ms and end at 4 ms before it",
        ),
        (
            {"startingTimestamp": "6", "endingOffsetsByTimestamp": TIMES},
            "t@b:0 would begin at 6 ms and end at 5 ms before it",
        ),
        ({"startingOffsetsByTimestamp": "5"}, "option startingOffsetsByTimestamp is '5': expected .*milliseconds"),
        (
            {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latst"},
            "expected error or latest; did you mean latest?",
        ),
        (
            {"startingOffsetsByTimestampStrategy": "error"},
            "Strategy needs startingTimestamp or startingOffsetsByTimestamp",
        ),
        ({"maxTriggerDelay": "5m"}, "option maxTriggerDelay needs minOffsetsPerTrigger"),
        (
            {"minOffsetsPerTrigger": "9", "maxTriggerDelay": "5"},
            "option maxTriggerDelay is '5': expected .* such as 30s",
        ),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger is more than maxOffsets"),
        ({"maxBytesPerTrigger": "64 megs"}, "option maxBytesPerTrigger is '64 megs': expected .*, such as 64m"),
        ({"maxBytesPerTrigger": "0k"}, "option maxBytesPerTrigger is '0k': expected at least 1"),
        ({"maxBytePerTrigger": "64m"}, "no option maxBytePerTrigger; did you mean maxBytesPerTrigger?"),
        ({"minOfsetsPerTrigger": "9"}, "no option minOfsetsPerTrigger; did you mean minOffsetsPerTrigger?"),
        ({"useTLS": "true"}, "option useTLS is 'true': TLS is not supported"),
        ({"useTls": "yes"}, "option useTLS is 'yes': expected true or false"),
        ({"namespace": "a%b"}, "option namespace is 'a%b': expected letters"),
        ({"namespace": " "}, "option namespace is ' ': expected letters"),
        (
            {"startingTimestamp": "2026-01-01"},
            "startingTimestamp is .*: expected a whole number of milliseconds since 1970",
        ),
        ({"endingTimestamp": "9" * 19}, "option endingTimestamp is .*: expected at most 9223372036854775807"),
        ({"pollTimeoutMs": "2m"}, "option pollTimeoutMs is '2m': expected a whole number of milliseconds"),
        ({"pullBatchSize": "2147483648"}, "option pullBatchSize is .*: expected at most 2147483647"),
        ({"startingOffsets": "0"}, "option startingOffsets is '0': expected earliest, latest or {"),
        ({"startingOffsets": '{"t": {"b": {"0": 9223372036854775808}}}'}, "offset 9223372036854775808 of t@b:0 is inv"),
        (
            {"startingOffsetsByTimestamp": '{"t": {"b": {"0": 9223372036854775808}}}'},
            "time 9223372036854775808 of t@b:0 is invalid: expected 0 to",
        ),
        ({"brokrs": "a"}, "no option brokrs; did you mean brokers?"),
    ],
)
def test_an_invalid_topic_option_is_reported(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        bound(**options)


def test_an_assignment_replaces_the_names_of_topics() -> None:
    options = bound(assign='{"u": {"b": [0]}, "t": {"b": [1], "c": [1]}}')
    options.check_for_read()
    assert options.named_topics == ("t", "u")
    with pytest.raises(OptionError, match=r"exactly one of the options topic, .* is needed; given: topic and assign"):
        bound(topic="t", assign=ASSIGNED).check_for_read()
    with pytest.raises(OptionError, match=r"exactly one of the options topic, .* is needed; given: none"):
        bound().check_for_read()
    with pytest.raises(OptionError, match="option assign is for reading only"):
        bound(topic="t", assign=ASSIGNED).check_for_write()


def test_a_batch_may_begin_at_the_latest_where_a_group_has_no_commit() -> None:
    bound(topic="t", startingGroup="billing", startingOffsets="latest").check_for_batch_read()
    with pytest.raises(OptionError, match="a batch would read nothing"):
        bound(topic="t", startingOffsets="latest").check_for_batch_read()


def test_delays_of_micro_batches_are_for_streams() -> None:
    options = bound(topic="t", minOffsetsPerTrigger="9", maxTriggerDelay="2m")
    options.check_for_stream_read()
    assert options.max_trigger_delay_ms == 120_000
    with pytest.raises(OptionError, match="option minOffsetsPerTrigger is for a stream only"):
        options.check_for_batch_read()


def test_a_limit_in_bytes_is_for_streams() -> None:
    options = bound(topic="t", maxBytesPerTrigger="64m")
    options.check_for_stream_read()
    assert options.max_bytes_per_trigger == 64 * 2**20
    with pytest.raises(OptionError, match="option maxBytesPerTrigger is for a stream only"):
        options.check_for_batch_read()
    with pytest.raises(OptionError, match="option maxBytesPerTrigger is for reading only"):
        options.check_for_write()


def test_plain_connections_may_be_asked_for() -> None:
    bound(topic="t", useTLS="false").check_for_read()


def test_client_settings_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.pipeline.topics.topicoptions.link_to", lambda config: config)
    options = bound(topic="t", instanceName="etl", unitName="u1", connectTimeoutMs="250", pullBatchSize="16")
    options.check_for_batch_read()
    client = options.link
    assert isinstance(client, ClientConfig)
    assert (client.instance_name, client.unit_name, client.connect_timeout) == (f"etl#{os.getpid()}", "u1", 0.25)
    assert options.reading.pull_batch_size == 16


def test_clients_without_a_name_get_a_unique_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.pipeline.topics.topicoptions.link_to", lambda config: config)
    client = bound(topic="t").link
    assert isinstance(client, ClientConfig)
    assert (client.instance_name, client.unit_name) == ("DEFAULT", None)


@pytest.mark.parametrize("name", ["instanceName", "unitName"])
@pytest.mark.parametrize("text", ["", "a@b", "a b", "a#1", "x" * 65])
def test_parts_of_client_ids_are_plain_words(name: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} is .*: expected 1 to 64 letters"):
        bound(**{name: text})


def test_a_writer_accepts_client_settings_and_rejects_pull_settings() -> None:
    bound(topic="t", instanceName="etl", unitName="u1", connectTimeoutMs="250").check_for_write()
    with pytest.raises(OptionError, match="option pullBatchSize is for reading only"):
        bound(topic="t", pullBatchSize="16").check_for_write()


@pytest.mark.parametrize(
    ("near", "meant"),
    [
        ("instancename_", "instanceName"),
        ("unit", "unitName"),
        ("connectTimeout", "connectTimeoutMs"),
        ("pullBatch", "pullBatchSize"),
    ],
)
def test_near_misses_of_client_settings_are_named(near: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"there is no option {near}; did you mean {meant}"):
        bound(**{near: "1"})


def test_a_namespace_is_for_reading_and_writing() -> None:
    options = bound(topic="t", namespace="NS")
    options.check_for_read()
    options.check_for_stream_write()


def test_options_of_a_batch_write_are_refused_elsewhere() -> None:
    options = bound(topic="t", txnAppId="billing", txnVersion="0")
    options.check_for_write()
    with pytest.raises(OptionError, match="option txnAppId is for a batch write only"):
        options.check_for_stream_write()
    with pytest.raises(OptionError, match="option txnAppId is for writing only"):
        options.check_for_read()
    with pytest.raises(OptionError, match="option brokers is for reading only"):
        bound(topic="t", brokers="broker-a").check_for_write()


def test_the_timeout_of_a_request_is_also_that_of_routes_and_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[ClientConfig] = []
    monkeypatch.setattr(topicoptions, "link_to", configs.append)
    options = bound(topic="t", requestTimeoutMs="40000", connectTimeoutMs="2000")
    assert options.link is None
    assert [(one.api_timeout, one.connect_timeout) for one in configs] == [(40.0, 2.0)]
    assert options.reading.request_seconds == 40.0


@pytest.mark.parametrize(
    ("option", "said"),
    [("path", "without a path, and option topic"), ("subscribe", "topics"), ("kafka.bootstrap.servers", "nameServer")],
)
def test_options_of_other_sources_are_explained(option: str, said: str) -> None:
    with pytest.raises(OptionError, match=f"there is no option {option}; use .*{said}"):
        bind_options(TopicOptions, {**SERVER, option: "x"}, source=NAME, meant=MEANT)
