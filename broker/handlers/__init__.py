"""Request handlers, one file per family, and the table that they make together."""

from broker.handlers import (
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
    topic,
    transaction,
)
from remoting.codes import RequestCode
from remoting.dispatch import handler_table

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

VIP_HANDLERS = {
    code: route
    for code, route in HANDLERS.items()
    if code not in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
}
"""What the VIP port serves: all but pulls (remoting-and-nameserver section 2.1)."""

SERVED_BY_CLIENTS = frozenset(
    {
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    }
)
"""What a broker asks of its clients."""

NOT_SERVED = {
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
"""Codes that are meant for a broker and that ours answers with REQUEST_CODE_NOT_SUPPORTED, by the reason."""
