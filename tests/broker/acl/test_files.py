"""What an ACL file may hold."""

import pathlib

import pytest
import yaml

from rmqlab.broker.acl.denial import AclDenied
from rmqlab.broker.acl.files import AclFile, _document_of, _nodes_below, read_acl_file, write_acl_file

NOW = 1_700_000_000_000
MERGES = "\n".join(["a0: &a0 {k: v}", *(f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}" for n in range(40))])


def parse(text: str) -> AclFile:
    return AclFile.of(_document_of(pathlib.Path("plain_acl.yml"), text), NOW)


def test_few_lines_of_merges_do_not_take_all_memory(tmp_path: pathlib.Path) -> None:
    """Each line doubles the entries of the one before."""
    path = tmp_path / "plain_acl.yml"
    path.write_text(MERGES)
    with pytest.raises(AclDenied, match="more than 500000 values"):
        read_acl_file(path)


def test_the_count_of_a_document_stops_above_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise 32,000 lines of aliases have counts of up to 4 kB each."""
    monkeypatch.setattr("rmqlab.broker.acl.files.MOST_NODES", 10)
    size = _nodes_below(yaml.compose(MERGES), {})
    assert size == 11


@pytest.mark.parametrize("text", ["accounts: &a [*a]", "accounts: &a [{accessKey: *a}]"])
def test_an_alias_within_itself_is_rejected(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(text)
    with pytest.raises(AclDenied, match="more than 500000 values"):
        read_acl_file(path)


def test_aliases_and_merges_may_be_used(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(
        "common: &common {secretKey: '12345678'}\naccounts: [{<<: *common, accessKey: one}, {<<: *common, accessKey: two}]"
    )
    accounts = read_acl_file(path)["accounts"]
    assert accounts == [{"secretKey": "12345678", "accessKey": key} for key in ("one", "two")]
    path.write_text("")
    assert read_acl_file(path) == {}


def test_a_file_that_the_next_start_would_reject_is_not_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text("globalWhiteRemoteAddresses: [10.1.2.3]")
    with pytest.raises(AclDenied, match="the change makes it larger than 1048576 bytes"):
        write_acl_file(path, {"globalWhiteRemoteAddresses": ["10.1.2.3"] * 100_000}, 1)
    assert path.read_text() == "globalWhiteRemoteAddresses: [10.1.2.3]"


@pytest.mark.parametrize("key", ["accounts", "globalWhiteRemoteAddresses"])
@pytest.mark.parametrize("value", ["{}", "0", "false", "{a: b}"])
def test_a_list_of_a_file_is_nothing_else(key: str, value: str) -> None:
    with pytest.raises(AclDenied, match=f"{key}: expected a list"):
        parse(f"{key}: {value}")


@pytest.mark.parametrize("key", ["accounts", "globalWhiteRemoteAddresses"])
@pytest.mark.parametrize("value", ["", "''", "[]", "~"])
def test_a_list_of_a_file_may_be_empty(key: str, value: str) -> None:
    file = parse(f"{key}: {value}")
    assert (file.accounts, file.white) == ({}, ())


@pytest.mark.parametrize(
    ("entry", "version"),
    [
        ("{counter: 5, timestamp: 6}", (5, 6)),
        ("{counter: '7', timestamp: '8'}", (7, 8)),
        ("{counter: 1.5}", (1, NOW)),
        ("{timestamp: 3}", (0, 3)),
        ("{}, {counter: 9}", (0, NOW)),
    ],
)
def test_the_version_of_a_file_is_read_as_fastjson_does(entry: str, version: tuple[int, int]) -> None:
    found = parse(f"dataVersion: [{entry}]").version
    assert (found.counter, found.timestamp) == version


@pytest.mark.parametrize("counter", ["x", ".inf", "[1]"])
def test_a_version_that_is_no_number_is_rejected(counter: str) -> None:
    with pytest.raises(AclDenied):
        parse(f"dataVersion: [{{counter: {counter}}}]")


@pytest.mark.parametrize("text", ["", "# nothing", "~", "{}", "[]"])
def test_a_file_without_content_is_empty(text: str) -> None:
    file = parse(text)
    assert (file.accounts, file.white) == ({}, ())


@pytest.mark.parametrize("text", ["[a]", "text", "5", "1: 2", "true: a", "accounts: []\n2001-01-01: a"])
def test_the_keys_of_a_file_are_texts(text: str) -> None:
    with pytest.raises(AclDenied, match="expected keys such as accounts"):
        parse(text)


@pytest.mark.parametrize("key", ["1", "true"])
def test_the_keys_of_an_account_are_texts(key: str) -> None:
    with pytest.raises(AclDenied, match="accounts: expected a list of entries"):
        parse(f"accounts: [{{accessKey: RocketMQ, secretKey: '12345678', {key}: x}}]")
