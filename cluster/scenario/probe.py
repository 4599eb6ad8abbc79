"""Sends a message to one broker regardless of the routes, as no client does."""

from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request
from rmqlab.remoting.headers.send import SendMessageRequestHeaderV2
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.net.reactor import open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError

PROBE_TOPIC = "rmqlab-probe"
_SECONDS = 5.0  # real


async def send_directly(address: str, topic: str = PROBE_TOPIC) -> tuple[int | None, str]:
    """Send one message; return the response code and remark, or None and the reason."""
    header = SendMessageRequestHeaderV2(
        producer_group="rmqlab-probe",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
    )
    async with open_reactor() as reactor:
        client = RemotingClient(reactor)
        try:
            command = request(RequestCode.SEND_MESSAGE_V2, header, b"0 straight to one broker")
            reply = await client.request(address, command, real_seconds(_SECONDS))
        except RemotingError as exc:
            return None, str(exc)
        finally:
            client.close()
    return reply.code, reply.remark or ""
