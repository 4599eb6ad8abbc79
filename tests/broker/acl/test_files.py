"""What an ACL file may hold."""

import pathlib

import pytest
import yaml

from rmqlab.broker.acl.denial import AclDenied
from rmqlab.broker.acl.files import _nodes_below, read_acl_file, write_acl_file

MERGES = "\n".join(["a0: &a0 {k: v}", *(f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}" for n in range(40))])


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
