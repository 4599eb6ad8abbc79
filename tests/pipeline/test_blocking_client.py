import pytest

from rmqlab.client.config import ClientConfig
from rmqlab.pipeline.topics.blocking_client import Link


def test_routes_that_a_link_cannot_refresh_are_no_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Spark keeps idle workers for a minute, in which the cluster may be stopped."""
    link = Link(ClientConfig(namesrv_addr="127.0.0.1:1"))
    try:
        assert not link.call(lambda client: client.try_refresh("orders"))
    finally:
        link.close()
    assert caplog.text == ""
