"""Request handlers, one file per family, and the table that they make together."""

from broker.handlers import client, group, lock, offset, progress, pull, query, retry, send, topic
from remoting.codes import RequestCode
from remoting.dispatch import handler_table

HANDLERS = handler_table(
    send.ROUTES,
    retry.ROUTES,
    pull.ROUTES,
    client.ROUTES,
    lock.ROUTES,
    offset.ROUTES,
    topic.ROUTES,
    group.ROUTES,
    progress.ROUTES,
    query.ROUTES,
)

VIP_HANDLERS = {
    code: route
    for code, route in HANDLERS.items()
    if code not in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
}
"""What the VIP port serves: all but pulls (remoting-and-nameserver section 2.1)."""
