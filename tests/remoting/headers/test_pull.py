"""Headers of pulls."""

from rmqlab.remoting.header import header_from_json
from rmqlab.remoting.headers.pull import PullMessageRequestHeader


def test_a_pull_of_a_cpp_client_has_numbers_and_no_expression_type() -> None:
    """broker-requests#4, #30"""
    header = header_from_json(
        PullMessageRequestHeader,
        b'{"consumerGroup":"G","topic":"T","queueId":3,"queueOffset":"42","maxMsgNums":32,"sysFlag":6,'
        b'"commitOffset":"0","suspendTimeoutMillis":15000,"subscription":"*","subVersion":"1795198274875",'
        b'"OnsChannel":"","Signature":""}',
    )
    assert (header.queue_id, header.queue_offset, header.sys_flag) == (3, 42, 6)
    assert (header.subscription, header.expression_type) == ("*", None)
