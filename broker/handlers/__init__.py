"""Request handlers, one file per family, and the table that they make together."""

import functools
import logging
from collections.abc import Mapping
from typing import Final

import attrs

from rmqlab.broker.handlers import (
    acl,
    client,
    client_call,
    group,
    lock,
    offset,
    progress,
    pull,
    query,
    reply,
    retry,
    runtime,
    send,
    settings,
    slave_trouble,
    topic,
    transaction,
)
from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.header import Header
from rmqlab.runtime.net.dispatch import MAX_UNSERVED, Reply, Request, Route, handler_table

log = logging.getLogger(__name__)

HANDLERS = handler_table(
    send.ROUTES,
    reply.ROUTES,
    retry.ROUTES,
    pull.ROUTES,
    client.ROUTES,
    client_call.ROUTES,
    lock.ROUTES,
    offset.ROUTES,
    topic.ROUTES,
    group.ROUTES,
    progress.ROUTES,
    query.ROUTES,
    runtime.ROUTES,
    settings.ROUTES,
    acl.ROUTES,
    transaction.ROUTES,
)
"""The requests that a broker of 4.9.8 serves."""

HANDLERS_OF_5X = handler_table(pull.ROUTES_OF_5X, topic.ROUTES_OF_5X, group.ROUTES_OF_5X)
"""Requests added by `serve_requests_of_5x`: clients and tools of 5.x send them, and 4.9.8 replies code 3."""

HANDLERS_OF_OURS = handler_table(slave_trouble.ROUTES)
"""Requests unknown to RocketMQ. Each handler replies code 3 unless its switch is on."""

PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)


def handlers_of(broker: Broker, *, is_vip: bool = False) -> Mapping[int, Route[Broker]]:
    """The handlers of a port, by the broker's settings at its start.

    The VIP port serves all but pulls.

    (remoting-and-nameserver section 2.1.)
    """
    table = {**HANDLERS, **HANDLERS_OF_OURS}
    if broker.serves_5x:
        table |= {
            code: attrs.evolve(route, handle=functools.partial(_handle_of_5x, route))
            for code, route in HANDLERS_OF_5X.items()
        }
    return {code: route for code, route in table.items() if not (is_vip and code in PULLS)}


def _handle_of_5x(route: Route[Broker], broker: Broker, header: Header | None, request: Request) -> Reply | None:
    """Serve a request unknown to 4.9.8.

    Log it once per peer and code, and count it for `status`.
    """
    peer: str = request.channel.peer
    key = (peer.rpartition(":")[0], int(route.code))
    counts = broker.served_of_5x
    if key in counts or len(counts) < MAX_UNSERVED:
        counts[key] += 1
        if counts[key] == 1:
            log.warning(
                "%s asks for %s (%d), which is of RocketMQ 5.x and served by serve_requests_of_5x: a real 4.9.8 answers"
                " code 3, REQUEST_CODE_NOT_SUPPORTED",
                peer,
                route.code.name,
                route.code,
            )
    return route.handle(broker, header, request)


SERVED_BY_CLIENTS = frozenset(
    {
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    }
)
"""Requests that a broker sends to its clients."""

NOT_SERVED = {
    "5.x has them: served with serve_requests_of_5x": {
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.LITE_PULL_MESSAGE,
    },
    "4.9.8 names them and serves them nowhere": {
        RequestCode.QUERY_BROKER_OFFSET,
        RequestCode.GET_TOPIC_CONFIG_LIST,
        RequestCode.GET_TOPIC_NAME_LIST,
        RequestCode.TRIGGER_DELETE_FILES,
        RequestCode.SUSPEND_CONSUMER,
        RequestCode.RESUME_CONSUMER,
        RequestCode.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        RequestCode.RESET_CONSUMER_OFFSET_IN_BROKER,
        RequestCode.ADJUST_CONSUMER_THREAD_POOL,
        RequestCode.WHO_CONSUME_THE_MESSAGE,
        RequestCode.REGISTER_FILTER_SERVER,
        RequestCode.REGISTER_MESSAGE_FILTER_CLASS,
    },
}
"""Codes for a broker that ours rejects with REQUEST_CODE_NOT_SUPPORTED, by reason."""
