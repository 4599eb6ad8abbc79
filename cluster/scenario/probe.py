"""A message sent straight to one broker, whatever the routes say: what no client would do."""

from remoting.channel import RemotingError
from remoting.client import RemotingClient
from remoting.clock import real_seconds
from remoting.codes import RequestCode
from remoting.command import request
from remoting.headers.send import SendMessageRequestHeaderV2
from remoting.reactor import open_reactor

PROBE_TOPIC = "rmqlab-probe"
_SECONDS = 5.0  # real


async def send_straight(address: str, topic: str = PROBE_TOPIC) -> tuple[int | None, str]:
    """Send one message; the response code and the remark, or None and why there is none."""
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
