"""Headers of requests to a nameserver: what may be missing, and what not."""

import pytest

from rmqlab.remoting.header import Header, HeaderError, header_from_json
from rmqlab.remoting.headers.nameserver import (
    DeleteKVConfigRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetKVConfigRequestHeader,
    GetKVListByNamespaceRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    QueryDataVersionRequestHeader,
    RegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
)

BROKER = b'{"brokerName":"b","brokerAddr":"a:1","clusterName":"c","haServerAddr":"a:2","brokerId":"0"}'


@pytest.mark.parametrize(
    "kind",
    [
        GetRouteInfoRequestHeader,
        GetKVConfigRequestHeader,
        DeleteKVConfigRequestHeader,
        GetKVListByNamespaceRequestHeader,
        DeleteTopicFromNamesrvRequestHeader,
        GetTopicsByClusterRequestHeader,
        WipeWritePermOfBrokerRequestHeader,
        QueryDataVersionRequestHeader,
    ],
)
def test_a_request_without_fields_decodes_to_the_default_header(kind: type[Header]) -> None:
    """remoting#18, #38; remoting-and-nameserver 1.8"""
    assert header_from_json(kind, b"{}") == kind()


@pytest.mark.parametrize("missing", [b"brokerId", b"brokerName", b"brokerAddr", b"clusterName"])
def test_a_registration_without_a_required_field_is_rejected(missing: bytes) -> None:
    """remoting-and-nameserver 3.4"""
    with pytest.raises(HeaderError, match=missing.decode()):
        header_from_json(RegisterBrokerRequestHeader, BROKER.replace(missing, b"x"))


def test_a_registration_may_lack_checksum_and_compression() -> None:
    """remoting#21"""
    header = header_from_json(RegisterBrokerRequestHeader, BROKER)
    assert (header.body_crc32, bool(header.compressed)) == (0, False)
    wire = BROKER.replace(b"}", b',"bodyCrc32":"17","compressed":"True","heartbeatTimeoutMillis":"1"}')
    header = header_from_json(RegisterBrokerRequestHeader, wire)
    assert (header.body_crc32, bool(header.compressed)) == (17, True)


def test_a_key_and_a_value_may_be_missing() -> None:
    """remoting-and-nameserver 3.2"""
    assert header_from_json(PutKVConfigRequestHeader, b'{"namespace":"n","key":"k"}').value is None
    assert header_from_json(PutKVConfigRequestHeader, b'{"namespace":"n","value":"v"}').key is None
