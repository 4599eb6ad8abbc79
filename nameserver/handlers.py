"""The requests that a nameserver serves: all twenty of 4.9.8.

Class DefaultRequestProcessor; remoting-and-nameserver section 3.

Any other code is counted and gets code 3 at once, but for IGNORED (remoting#14). 4.9 does not reply to any, so that the
peer waits for its time-out; 5.0 and later reply as we do.
"""

import logging
import pathlib
from collections.abc import Collection, Generator, Hashable, Sequence

import msgspec

from rmqlab.nameserver.config import config_text, ineffective_settings, is_black_listed, stored_text, updated_config
from rmqlab.nameserver.kvchanges import not_saved
from rmqlab.nameserver.kvconfig import ORDER_TOPIC_CONFIG, KvChange
from rmqlab.nameserver.limits import RouteTableFullError
from rmqlab.nameserver.lookup import (
    cluster_info,
    find_route,
    system_topics,
    topics_of_cluster,
    unit_sub_topics,
    unit_sub_un_unit_topics,
    unit_topics,
)
from rmqlab.nameserver.route import Registered, Registration
from rmqlab.nameserver.state import Nameserver
from rmqlab.remoting.bodies.registration import body_crc32, decode_registration_in_steps
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig, TopicList
from rmqlab.remoting.body import NO_OBJECT
from rmqlab.remoting.codes import RequestCode, ResponseCode, version_number
from rmqlab.remoting.command import Command
from rmqlab.remoting.header import FALSE, TRUE
from rmqlab.remoting.headers import nameserver as headers
from rmqlab.runtime.config.settings import SettingsError, parse_change, snake
from rmqlab.runtime.net.dispatch import Reply, Request, Route, handler_table
from rmqlab.runtime.net.slices import Work, in_slices
from rmqlab.store.files.configfile import save_config_file

log = logging.getLogger(__name__)

STANDARD_JSON_VERSION = version_number(4, 9, 4)
"""Peers of this version and later get routes as strict JSON (remoting#16)."""

IGNORED = frozenset({RequestCode.CONSUMER_SEND_MSG_BACK})
"""Requests for brokers on whose time-out clients depend.

While a master is dead, consumers of 4.9 send its failed messages back to a nameserver. They wait 5 s for a reply, and
deliver the message again after 5 s more. A reply would double the rate of these deliveries.
"""


# -- brokers -------------------------------------------------------------------------------------


@in_slices
def register_broker(state: Nameserver, header: headers.RegisterBrokerRequestHeader, request: Request) -> Work:
    """103: a heartbeat.

    The reply has the master's address for a slave, and the order topics for every broker (remoting#21 to #28).
    """
    command = request.command
    if header.body_crc32 and header.body_crc32 != body_crc32(command.body):
        return Reply(ResponseCode.SYSTEM_ERROR, header={}, remark="the body does not match its CRC-32")
    try:
        if registration := _repeated(state, header, command):
            registered = _placed(state, registration, request)
        else:
            registered = yield from _registered(state, header, request)
    except RouteTableFullError as exc:
        return Reply(ResponseCode.SYSTEM_ERROR, header={}, remark=str(exc))
    response = headers.RegisterBrokerResponseHeader(
        ha_server_addr=registered.master_ha_address, master_addr=registered.master_address
    )
    return Reply(header=response, body=state.kv.listing(ORDER_TOPIC_CONFIG) or b"")


def _registered(
    state: Nameserver, header: headers.RegisterBrokerRequestHeader, request: Request
) -> Generator[None, None, Registered]:
    """Decode and apply a registration, after the earlier ones of its broker name.

    Raises BodyError and RouteTableFullError.
    """
    with state.name_locks.wait_for(header.broker_name) as has_lock:
        while not has_lock():
            yield
        registration = yield from _decoded(header, request.command)
        registered = _placed(state, registration, request)
        yield from state.routes.enter_topics(registration, registered, lambda change: state.announce([change]))
        return registered


def _placed(state: Nameserver, registration: Registration, request: Request) -> Registered:
    registered = state.routes.place(registration, request.channel, now=state.now())
    state.announce(registered.changes)
    return registered


def _repeated(state: Nameserver, header: headers.RegisterBrokerRequestHeader, command: Command) -> Registration | None:
    """Return a registration that repeats the last body of its address.

    The body is not decoded. None for another body, or if its topics are needed. Most heartbeats repeat all topics of a
    broker.
    """
    live = state.routes.live.get(header.broker_addr)
    if live is None or live.body_key != _body_key(header, command):
        return None
    registration = _registration_of(header, live.data_version, (), live.filter_servers, live.body_key)
    return None if state.routes.wants_topics(registration) else registration


def _decoded(header: headers.RegisterBrokerRequestHeader, command: Command) -> Generator[None, None, Registration]:
    body = yield from decode_registration_in_steps(
        command.body, version=command.version, compressed=bool(header.compressed)
    )
    wrapper = body.topic_config_serialize_wrapper
    topics, servers = wrapper.topic_config_table.values(), body.filter_server_list
    return _registration_of(header, wrapper.data_version, topics, servers, _body_key(header, command))


def _registration_of(
    header: headers.RegisterBrokerRequestHeader,
    data_version: DataVersion,
    topics: Collection[TopicConfig],
    filter_servers: Sequence[str] | None,
    body_key: Hashable,
) -> Registration:
    """Return the registration with a header, and with what its body states."""
    return Registration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        ha_address=header.ha_server_addr,
        data_version=data_version,
        topics=topics,
        filter_servers=filter_servers,
        body_key=body_key,
    )


def _body_key(header: headers.RegisterBrokerRequestHeader, command: Command) -> Hashable:
    """Return the fingerprint of a body: its form, size and hash.

    The hash has 64 bits and a secret of the process. The key counts for one address, so a broker that forges one
    harms only its own registration.
    """
    return command.version, bool(header.compressed), len(command.body), hash(command.body)


def unregister_broker(state: Nameserver, header: headers.UnRegisterBrokerRequestHeader, _request: Request) -> Reply:
    """104: unregister a broker. Always 0 (remoting#34)."""
    state.announce(
        state.routes.unregister(header.cluster_name, header.broker_addr, header.broker_name, header.broker_id)
    )
    return Reply()


def query_data_version(state: Nameserver, header: headers.QueryDataVersionRequestHeader, request: Request) -> Reply:
    """322: return whether a broker must register (remoting#29).

    If it need not, this request was its heartbeat.
    """
    version = None if request.command.body in NO_OBJECT else DataVersion.decode(request.command.body)
    changed, held = state.routes.query_data_version(header.broker_addr, version, now=state.now())
    response = headers.QueryDataVersionResponseHeader(changed=TRUE if changed else FALSE)
    return Reply(header=response, body=b"" if held is None else held.encode())


def wipe_write_perm(state: Nameserver, header: headers.WipeWritePermOfBrokerRequestHeader, _request: Request) -> Reply:
    """205: remove the write permission of a broker's topics (remoting#36)."""
    count, changes = state.routes.wipe_write_perm(header.broker_name)
    state.announce(changes)
    return Reply(header=headers.WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))


def add_write_perm(state: Nameserver, header: headers.AddWritePermOfBrokerRequestHeader, _request: Request) -> Reply:
    """327: add the write permission again (remoting#36)."""
    count, changes = state.routes.add_write_perm(header.broker_name)
    state.announce(changes)
    return Reply(header=headers.AddWritePermOfBrokerResponseHeader(add_topic_count=count))


# -- routes and lists ----------------------------------------------------------------------------


def get_route(state: Nameserver, header: headers.GetRouteInfoRequestHeader, request: Request) -> Reply:
    """105: return the route of a topic (remoting#15 to #18)."""
    topic = "null" if header.topic is None else header.topic
    route = find_route(state.routes, topic)
    if route is None:
        remark = f"no broker has registered topic {topic}; see https://rocketmq.apache.org/docs/faq/"
        return Reply(ResponseCode.TOPIC_NOT_EXIST, remark=remark)
    if state.config.order_message_enable:
        route = msgspec.structs.replace(route, order_topic_conf=state.kv.get(ORDER_TOPIC_CONFIG, topic))
    if request.command.version >= STANDARD_JSON_VERSION or header.accept_standard_json_only:
        return Reply(body=route.encode_browser_compatible())
    return Reply(body=route.encode())


def get_cluster_info(state: Nameserver, _header: None, _request: Request) -> Reply:
    """106: return all brokers, with unquoted broker ids as keys (remoting#19)."""
    return Reply(body=cluster_info(state.routes).encode())


def get_all_topics(state: Nameserver, _header: None, _request: Request) -> Reply:
    """206: return all topics."""
    return _topic_list(list(state.routes.queues))


def get_topics_by_cluster(
    state: Nameserver, header: headers.GetTopicsByClusterRequestHeader, _request: Request
) -> Reply:
    """224: return the topics of a cluster."""
    return _topic_list(topics_of_cluster(state.routes, header.cluster))


def get_system_topics(state: Nameserver, _header: None, _request: Request) -> Reply:
    """304: return the names of clusters and brokers, and a broker's address.

    That broker can list the other topics (remoting#20).
    """
    topics, address = system_topics(state.routes)
    return _topic_list(topics, address)


def get_unit_topics(state: Nameserver, _header: None, _request: Request) -> Reply:
    """311: return the topics of units."""
    return _topic_list(unit_topics(state.routes))


def get_unit_sub_topics(state: Nameserver, _header: None, _request: Request) -> Reply:
    """312: return the topics that other units subscribe to."""
    return _topic_list(unit_sub_topics(state.routes))


def get_unit_sub_un_unit_topics(state: Nameserver, _header: None, _request: Request) -> Reply:
    """313: return the topics that other units subscribe to, without those of units."""
    return _topic_list(unit_sub_un_unit_topics(state.routes))


def delete_topic(state: Nameserver, header: headers.DeleteTopicFromNamesrvRequestHeader, _request: Request) -> Reply:
    """216: delete a topic. Always 0 (remoting#35)."""
    state.announce(state.routes.delete_topic(header.topic, header.cluster_name))
    return Reply()


def _topic_list(topics: list[str], broker_address: str | None = None) -> Reply:
    return Reply(body=TopicList(topic_list=topics, broker_addr=broker_address).encode())


# -- keys and values -----------------------------------------------------------------------------


def put_kv(state: Nameserver, header: headers.PutKVConfigRequestHeader, request: Request) -> Reply | None:
    """100: put a value, saved to the file before the reply (remoting#37).

    Code 1 if that fails, where 4.9 replies 0.
    """
    if header.namespace is None or header.key is None:
        return Reply(ResponseCode.SYSTEM_ERROR, remark="a value needs a namespace and a key")
    state.kv_changes.add(KvChange(header.namespace, header.key, header.value), request)
    return None


def get_kv(state: Nameserver, header: headers.GetKVConfigRequestHeader, _request: Request) -> Reply:
    """101: return a value (remoting#38)."""
    value = state.kv.get(header.namespace, header.key)
    if value is None:
        remark = f"nothing under key {header.key} in namespace {header.namespace}"
        return Reply(ResponseCode.QUERY_NOT_FOUND, header={}, remark=remark)
    return Reply(header=headers.GetKVConfigResponseHeader(value=value))


def delete_kv(state: Nameserver, header: headers.DeleteKVConfigRequestHeader, request: Request) -> None:
    """102: delete a key; 0 also for a missing key (remoting#38).

    Code 1 if the file cannot be saved.
    """
    state.kv_changes.add(KvChange(header.namespace, header.key, removes=True), request)


def list_kv(state: Nameserver, header: headers.GetKVListByNamespaceRequestHeader, _request: Request) -> Reply:
    """219: return a namespace (remoting#38)."""
    body = state.kv.listing(header.namespace)
    if body is None:
        return Reply(ResponseCode.QUERY_NOT_FOUND, remark=f"nothing in namespace {header.namespace}")
    return Reply(body=body)


# -- settings ------------------------------------------------------------------------------------


def update_config(state: Nameserver, _header: None, request: Request) -> Reply:
    """318: change settings and store all of them (remoting#39).

    Code 1, without any change, for a value out of range, or if the file cannot be saved.
    """
    if not request.command.body:
        return Reply()
    try:
        properties = parse_change(request.command.body, errors="replace")
        if is_black_listed(state.config, properties):
            return Reply(ResponseCode.NO_PERMISSION, remark="one of these settings is in the black list")
        config = updated_config(state.config, properties)
        save_config_file(pathlib.Path(config.config_store_path), stored_text(config).encode())
    except SettingsError as exc:
        return Reply(ResponseCode.SYSTEM_ERROR, remark=str(exc))
    except OSError as exc:
        return not_saved(exc)
    state.config = config
    if ineffective := ineffective_settings(config, {snake(key) for key in properties}):
        log.warning("%s set keys without effect here: %s", request.channel.peer, ", ".join(ineffective))
    return Reply()


def get_config(state: Nameserver, _header: None, _request: Request) -> Reply:
    """319: return all settings (remoting#39)."""
    return Reply(body=config_text(state.config).encode())


ROUTES: list[Route[Nameserver]] = [
    Route(RequestCode.PUT_KV_CONFIG, headers.PutKVConfigRequestHeader, put_kv),
    Route(RequestCode.GET_KV_CONFIG, headers.GetKVConfigRequestHeader, get_kv),
    Route(RequestCode.DELETE_KV_CONFIG, headers.DeleteKVConfigRequestHeader, delete_kv),
    Route(RequestCode.REGISTER_BROKER, headers.RegisterBrokerRequestHeader, register_broker),
    Route(RequestCode.UNREGISTER_BROKER, headers.UnRegisterBrokerRequestHeader, unregister_broker),
    Route(RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRouteInfoRequestHeader, get_route),
    Route(RequestCode.GET_BROKER_CLUSTER_INFO, None, get_cluster_info),
    Route(RequestCode.WIPE_WRITE_PERM_OF_BROKER, headers.WipeWritePermOfBrokerRequestHeader, wipe_write_perm),
    Route(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, get_all_topics),
    Route(RequestCode.DELETE_TOPIC_IN_NAMESRV, headers.DeleteTopicFromNamesrvRequestHeader, delete_topic),
    Route(RequestCode.GET_KVLIST_BY_NAMESPACE, headers.GetKVListByNamespaceRequestHeader, list_kv),
    Route(RequestCode.GET_TOPICS_BY_CLUSTER, headers.GetTopicsByClusterRequestHeader, get_topics_by_cluster),
    Route(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, None, get_system_topics),
    Route(RequestCode.GET_UNIT_TOPIC_LIST, None, get_unit_topics),
    Route(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, None, get_unit_sub_topics),
    Route(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, None, get_unit_sub_un_unit_topics),
    Route(RequestCode.UPDATE_NAMESRV_CONFIG, None, update_config),
    Route(RequestCode.GET_NAMESRV_CONFIG, None, get_config),
    Route(RequestCode.QUERY_DATA_VERSION, headers.QueryDataVersionRequestHeader, query_data_version),
    Route(RequestCode.ADD_WRITE_PERM_OF_BROKER, headers.AddWritePermOfBrokerRequestHeader, add_write_perm),
]

HANDLERS = handler_table(ROUTES)
