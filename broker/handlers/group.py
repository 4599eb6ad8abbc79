"""Consumer and producer groups: their configuration and members.

Class AdminBrokerProcessor; broker-requests section 6.3. The progress of groups is in progress.py.
"""

from rmqlab.broker.handlers.slave import refuse_on_slave
from rmqlab.broker.state import Broker
from rmqlab.broker.tables.clients import Member
from rmqlab.remoting.bodies.group import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionGroupConfig,
)
from rmqlab.remoting.body import NO_OBJECT
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.headers.group import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
)
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route


def update_and_create_subscriptiongroup(broker: Broker, _header: None, request: Request) -> Reply:
    """Replace a group's whole configuration, known or not."""
    refuse_on_slave(broker)
    if request.command.body.strip() not in NO_OBJECT:
        group = SubscriptionGroupConfig.decode(request.command.body)
        if not broker.subscriptions.has_room(group.group_name):
            raise Refusal(ResponseCode.SYSTEM_ERROR, "this broker has too many groups, or the name is too long")
        broker.subscriptions.put(group)
    return Reply()


def get_all_subscriptiongroup_config(broker: Broker, _header: None, _request: Request) -> Reply:
    """Return the whole table with its version: for tools, and for a slave."""
    return Reply(body=broker.subscriptions.wrapper().encode())


def get_subscriptiongroup_config(
    broker: Broker, header: GetSubscriptionGroupConfigRequestHeader, _request: Request
) -> Reply:
    """Return one group, for the mqadmin of 5.x."""
    group = broker.subscriptions.groups.get(header.group)
    if group is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group {header.group} does not exist")
    return Reply(body=group.encode())


def delete_subscriptiongroup(broker: Broker, _header: None, request: Request) -> Reply:
    """Delete a group, and its offsets if requested.

    Succeeds for an unknown group, too.
    """
    refuse_on_slave(broker)
    header = request.command.header(DeleteSubscriptionGroupRequestHeader)
    broker.subscriptions.delete(header.group_name)
    broker.emit("group_deleted", group=header.group_name, drops_offsets=header.drops_offsets)
    if header.drops_offsets:
        broker.offsets.remove_group(header.group_name)
    if broker.config.auto_delete_unused_stats:
        broker.stats.items.forget_group(header.group_name)
    return Reply()


def get_consumer_connection_list(
    broker: Broker, header: GetConsumerConnectionListRequestHeader, _request: Request
) -> Reply:
    """Return a group's connected consumers and its subscriptions."""
    group = broker.consumers.groups.get(header.consumer_group)
    if group is None:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"no consumer of group {header.consumer_group} is here")
    body = ConsumerConnection(
        connection_set=[_connection(member) for member in group.members.values()],
        consume_from_where=group.consume_from_where,
        consume_type=group.consume_type,
        message_model=group.message_model,
        subscription_table=group.subscriptions,
    )
    return Reply(body=body.encode())


def get_producer_connection_list(
    broker: Broker, header: GetProducerConnectionListRequestHeader, _request: Request
) -> Reply:
    """Return the producers of a group that are connected."""
    members = broker.producers.groups.get(header.producer_group)
    if members is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no producer of group {header.producer_group} is here")
    return Reply(body=ProducerConnection(connection_set=[_connection(one) for one in members.values()]).encode())


def get_all_producer_info(broker: Broker, _header: None, _request: Request) -> Reply:
    """Return all producers that are connected, by group."""
    now, now_millis = broker.now(), broker.now_millis()

    def info(member: Member) -> ProducerInfo:
        return ProducerInfo(
            client_id=member.client_id,
            language=member.language,
            last_update_timestamp=now_millis - int((now - member.seen_at) * 1000),
            remote_ip="/" + member.channel.peer,
            version=member.version,
        )

    data = {name: [info(one) for one in members.values()] for name, members in broker.producers.groups.items()}
    return Reply(body=ProducerTableInfo(data=data).encode())


def _connection(member: Member) -> Connection:
    return Connection(
        client_addr=member.channel.peer,
        client_id=member.client_id,
        language=member.language,
        version=member.version,
    )


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, update_and_create_subscriptiongroup),
    Route(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None, get_all_subscriptiongroup_config),
    Route(RequestCode.DELETE_SUBSCRIPTIONGROUP, None, delete_subscriptiongroup),
    Route(
        RequestCode.GET_CONSUMER_CONNECTION_LIST, GetConsumerConnectionListRequestHeader, get_consumer_connection_list
    ),
    Route(
        RequestCode.GET_PRODUCER_CONNECTION_LIST, GetProducerConnectionListRequestHeader, get_producer_connection_list
    ),
    Route(RequestCode.GET_ALL_PRODUCER_INFO, None, get_all_producer_info),
]

ROUTES_OF_5X: list[Route[Broker]] = [
    Route(
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GetSubscriptionGroupConfigRequestHeader, get_subscriptiongroup_config
    ),
]
