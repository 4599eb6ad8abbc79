"""Settings of clients.

Seconds and bytes; defaults are those of the Java client 4.9 (class ClientConfig).
"""

import pathlib
import socket
from collections.abc import Sequence

import attrs

from rmqlab.client.errors import AddressError
from rmqlab.client.processqueue import FlowLimits
from rmqlab.client.rebalance import Strategy, averagely
from rmqlab.remoting.acl import Credentials
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere, MessageModel
from rmqlab.remoting.frame import JSON
from rmqlab.remoting.names import DEFAULT_TOPIC, TRACE_TOPIC
from rmqlab.runtime.config.validators import INT32, above, at_least, is_address, shown, within
from rmqlab.runtime.config.valuetypes import typed_fields
from rmqlab.runtime.identity import process_id, unique_number

positive = above(0)


def _addresses(value: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or not all(isinstance(part, str) for part in value):
        raise TypeError(f"namesrv_addr = {shown(value)}: expected a text, such as 127.0.0.1:9876")
    parts = value.split(";") if isinstance(value, str) else value
    addresses = tuple(part.strip() for part in parts if part.strip())
    for address in addresses:
        if not is_address(address):
            raise AddressError(f"namesrv_addr = {shown(address)}: expected host:port, several separated by ;")
    return addresses


@attrs.frozen(kw_only=True, field_transformer=typed_fields)
class ClientConfig:
    """One client instance: settings that its producers and consumers share."""

    namesrv_addr: tuple[str, ...] = attrs.field(default="", converter=_addresses)
    """`host:port`, several joined by `;`. Each instance uses one, and the next one when its connection is lost."""
    source_ip: str | None = None
    """Local address of outgoing connections; None lets the system choose."""
    client_ip: str | None = None
    """The address in the client id and in unique ids; None uses source_ip, or detects one."""
    instance_name: str = "DEFAULT"
    """DEFAULT is replaced by something unique to this instance, as Java does for clustering consumers."""
    unit_name: str | None = None
    namespace: str | None = None
    """Topics and groups of this instance are `NAMESPACE%name` on the wire; see the module namespace."""
    credentials: Credentials | None = None
    """Signs every request, for clusters with access control."""
    poll_name_server_period: float = attrs.field(default=30.0, validator=positive)
    """Maximum age of a route. Requests to a lost broker fail until the next poll (reference, section 6.2)."""
    heartbeat_period: float = attrs.field(default=30.0, validator=positive)
    first_heartbeat_delay: float = attrs.field(default=1.0, validator=at_least(0))
    api_timeout: float = attrs.field(default=3.0, validator=positive)
    """For everything but sends and pulls."""
    connect_timeout: float = attrs.field(default=3.0, validator=positive)
    shutdown_timeout: float = attrs.field(default=3.0, validator=positive)
    """Limit for unregistering at all brokers when the instance closes."""
    serialize_type: int = JSON
    language: str = "PYTHON"


def client_id(config: ClientConfig, ip: str) -> str:
    """Return the name of an instance: `ip@pid#n`, as in Java.

    Brokers distinguish members of a group by it.
    """
    name = config.instance_name
    if name == "DEFAULT":
        name = f"{process_id()}#{unique_number()}"
    return f"{ip}@{name}" + (f"@{config.unit_name}" if config.unit_name else "")


def own_ip(config: ClientConfig) -> str:
    """Return the address in the instance's name."""
    return config.client_ip or config.source_ip or _routed_ip()


def _routed_ip() -> str:
    """Return this machine's address for outgoing connections, by its routing table.

    Sends nothing.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
            ip: str = sock.getsockname()[0]
        except OSError:
            return "127.0.0.1"
    return ip


@attrs.frozen(kw_only=True, field_transformer=typed_fields)
class ProducerConfig:
    """One producer (class DefaultMQProducer)."""

    send_timeout: float = attrs.field(default=3.0, validator=positive)
    """Over all attempts of one send."""
    retries: int = attrs.field(default=2, validator=at_least(0))
    """Attempts after the first. A oneway send has one attempt."""
    retry_another_broker_when_not_store_ok: bool = False
    """True: FLUSH_DISK_TIMEOUT and the like are tried again elsewhere, though the message is stored."""
    send_latency_fault_enable: bool = False
    """True: brokers with slow attempts are avoided for 30 s to 3 min, those with failed ones for 10 min (class
    MQFaultStrategy). False: only the next attempt of a failed one goes elsewhere."""
    create_topic_key: str = DEFAULT_TOPIC
    default_topic_queue_nums: int = attrs.field(default=4, validator=above(0))
    compress_over: int = attrs.field(default=4096, validator=above(0))
    """Bodies of at least so many bytes are compressed."""
    compress_level: int = attrs.field(default=5, validator=within(1, 9))
    max_message_size: int = attrs.field(default=4 * 2**20, validator=above(0))
    max_sends_under_way: int = attrs.field(default=10_000, validator=above(0))
    """Limit of the messages that `send_soon` keeps in memory."""
    max_concurrent_sends: int = attrs.field(default=256, validator=above(0))
    """Sends beyond this number wait, and their time-outs begin afterwards. Of thousands at once, as with
    `asyncio.gather`, most would time out before this process has written them."""
    enable_trace: bool = False
    """Write a trace of each send to the trace topic; see rmqlab.client.tracing."""
    trace_topic: str = TRACE_TOPIC


@attrs.frozen(kw_only=True, field_transformer=typed_fields)
class ConsumerConfig:
    """One push consumer (class DefaultMQPushConsumer)."""

    model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """First offset of a group without offsets. On a queue that still has its first message, brokers always return 0."""
    consume_timestamp: int | None = None
    """For CONSUME_FROM_TIMESTAMP: milliseconds; None is half an hour before the start."""
    strategy: Strategy = averagely
    rebalance_period: float = attrs.field(default=20.0, validator=positive)
    commit_period: float = attrs.field(default=5.0, validator=positive)
    concurrency: int = attrs.field(default=20, validator=above(0))
    """Maximum number of concurrent calls of the application's function."""
    consume_batch_size: int = attrs.field(default=1, validator=above(0))
    consume_timeout: float = attrs.field(default=900.0, validator=positive)
    """A longer call is cancelled, and its messages are delivered again."""
    orderly: bool = False
    """Messages of a queue are consumed one after the other, by the one member that holds its lock. Needs masters."""
    suspend_current_queue: float = attrs.field(default=1.0, validator=positive)
    """Pause of an orderly queue after a failure, before the same messages are delivered again."""
    max_reconsume_times: int | None = attrs.field(default=None, validator=attrs.validators.optional(within(0, INT32)))
    """Failures of one message after which the next makes it a dead letter; 0: the first does. None, which is -1 in Java:
    16, or never for an orderly consumer."""
    redeliver_delay: float = attrs.field(default=5.0, validator=positive)
    """Pause after which a failed message that no broker accepted is delivered to the application again."""
    pull_batch_size: int = attrs.field(default=32, validator=above(0))
    suspend_timeout: float = attrs.field(default=15.0, validator=positive)
    """How long a broker may hold a pull without messages."""
    pull_timeout: float = attrs.field(default=30.0, validator=positive)
    pull_delay_after_error: float = attrs.field(default=1.0, validator=positive)
    """As in 4.9.8; up to 4.9.5 it was 3 s."""
    pull_delay_without_progress: float = attrs.field(default=1.0, validator=positive)
    """Pause after a reply without new messages that leaves the offset as it is, such as that of a slave without the
    data. Java's client repeats such pulls without a pause."""
    offset_illegal_delay: float = attrs.field(default=10.0, validator=at_least(0))
    """Between a pull beyond the queue's bounds and the start from its corrected offset."""
    flow: FlowLimits = attrs.field(factory=FlowLimits)
    lock_period: float = attrs.field(default=20.0, validator=positive)
    lock_expiry: float = attrs.field(default=30.0, validator=positive)
    """A lock that was not renewed for so long counts as lost; brokers release it after 60 s."""
    enable_trace: bool = False
    """Write traces of each delivery to the application, and of its outcome; see rmqlab.client.tracing. A lite pull
    consumer writes none."""
    trace_topic: str = TRACE_TOPIC
    local_offsets: pathlib.Path | None = None
    """The file with a broadcasting consumer's offsets; None keeps them in memory, and lost with the process."""

    @property
    def needs_locks(self) -> bool:
        """True for orderly consumers that share their queues.

        Each broadcasting consumer has all queues.
        """
        return self.orderly and self.model is MessageModel.CLUSTERING
