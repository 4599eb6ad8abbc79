"""Heartbeats, group membership, and the check of a consumer's expression.

Classes ClientManageProcessor, ConsumerManageProcessor.
"""

from collections.abc import Iterator

from rmqlab.broker.filter.lexer import FilterError
from rmqlab.broker.filter.table import compiled, is_tag_type
from rmqlab.broker.handlers.pullfilter import check_expression_type
from rmqlab.broker.state import Broker
from rmqlab.broker.tables.clients import Member
from rmqlab.broker.tables.memberships import MAX_GROUPS_OF_CHANNEL, MAX_NAME_SIZE, TooManyClientsError
from rmqlab.remoting import names
from rmqlab.remoting.bodies.group import GetConsumerListByGroupResponseBody
from rmqlab.remoting.bodies.heartbeat import CheckClientRequestBody, ConsumerData, HeartbeatData
from rmqlab.remoting.body import NO_OBJECT
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.headers.group import GetConsumerListByGroupRequestHeader, UnregisterClientRequestHeader
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route
from rmqlab.runtime.net.slices import Work, in_slices


@in_slices
def heart_beat(broker: Broker, _header: None, request: Request) -> Work:
    """Register a client: its groups and their subscriptions (section 3.1).

    In slices: it may bring thousands of SQL92 expressions to compile.
    """
    data = HeartbeatData.decode(request.command.body)
    if len(data.consumer_data_set) > MAX_GROUPS_OF_CHANNEL:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"a client has at most {MAX_GROUPS_OF_CHANNEL} consumer groups here")
    client_id = data.client_id or ""
    if len(client_id) > MAX_NAME_SIZE:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"a client id has at most {MAX_NAME_SIZE} characters here")
    member = Member(request.channel, client_id, request.command.language, request.command.version, broker.now())
    try:
        for consumer in data.consumer_data_set:
            yield from _register_consumer(broker, consumer.dated(broker.now_millis()), member)
        for producer in data.producer_data_set:
            _register_producer(broker, producer.group_name, member)
    except TooManyClientsError as exc:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(exc)) from None
    return Reply()


def _register_consumer(broker: Broker, consumer: ConsumerData, member: Member) -> Iterator[None]:
    group = broker.subscriptions.find(consumer.group_name)
    if group is not None:
        retry_topic = names.RETRY_PREFIX + consumer.group_name
        # Without room for it the group consumes, but cannot send messages back.
        if broker.topics.get(retry_topic) is None and broker.topics.has_room(retry_topic):
            broker.topics.create_plain(retry_topic, group.retry_queue_nums, unit_mode=consumer.unit_mode)
            broker.registration.register_soon(oneway=True)
    is_new = not broker.consumers.has_member(consumer.group_name, member.channel)
    if broker.consumers.register(consumer, member):
        broker.notify_group(consumer.group_name)
    if is_new:
        broker.emit("consumer_joined", group=consumer.group_name, client_id=member.client_id)
    yield
    for _ in broker.filters.register(consumer.group_name, consumer.subscription_data_set):
        yield
        if not broker.consumers.has_member(consumer.group_name, member.channel):
            return  # it left meanwhile, and the filters of a group end with its last member


def _register_producer(broker: Broker, group: str, member: Member) -> None:
    is_new = not broker.producers.has_member(group, member.channel)
    broker.producers.register(group, member)
    if is_new:
        broker.emit("producer_joined", group=group, client_id=member.client_id)


def unregister_client(broker: Broker, header: UnregisterClientRequestHeader, request: Request) -> Reply:
    """Forget a client's groups.

    All members of the consumer group that remain are notified, even if the client was not a member. An unknown group
    gets a configuration, as by a heartbeat (ClientManageProcessor.unregisterClient,
    ConsumerManager.unregisterConsumer).
    """
    if header.producer_group is not None:
        broker.producers.leave(header.producer_group, request.channel)
    if header.consumer_group is not None:
        broker.consumers.leave(header.consumer_group, request.channel)
        broker.notify_group(header.consumer_group)
    return Reply(header={})


def check_client_config(broker: Broker, _header: None, request: Request) -> Reply:
    """Check a consumer's expression. A consumer does not start if the reply is not 0.

    Tags are always valid (broker-requests#48).
    """
    if request.command.body.strip() in NO_OBJECT:
        return Reply()
    subscription = CheckClientRequestBody.decode(request.command.body).subscription_data
    if subscription is None or is_tag_type(subscription.expression_type):
        return Reply()
    check_expression_type(broker, subscription.expression_type)
    try:
        compiled(subscription.expression_type, subscription.sub_string)
    except FilterError as exc:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"{subscription.sub_string}: {exc}") from None
    return Reply()


def get_consumer_list_by_group(broker: Broker, header: GetConsumerListByGroupRequestHeader, _request: Request) -> Reply:
    """Return the client ids of a group (broker-requests#40).

    The members of the group allocate queues by them.
    """
    group = broker.consumers.groups.get(header.consumer_group)
    if group is None:
        return Reply(ResponseCode.SYSTEM_ERROR, {}, remark=f"no consumer of group {header.consumer_group} is here")
    ids = [member.client_id for member in group.members.values()]
    return Reply(header={}, body=GetConsumerListByGroupResponseBody(consumer_id_list=ids).encode())


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.HEART_BEAT, None, heart_beat),
    Route(RequestCode.CHECK_CLIENT_CONFIG, None, check_client_config),
    Route(RequestCode.UNREGISTER_CLIENT, UnregisterClientRequestHeader, unregister_client),
    Route(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequestHeader, get_consumer_list_by_group),
]
