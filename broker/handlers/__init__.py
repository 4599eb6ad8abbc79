"""Request handlers, one file per family, and the table that they make together."""

from broker.handlers import client, offset, pull, send
from remoting.codes import RequestCode
from remoting.dispatch import handler_table

HANDLERS = handler_table(send.ROUTES, pull.ROUTES, client.ROUTES, offset.ROUTES)

VIP_HANDLERS = {
    code: route
    for code, route in HANDLERS.items()
    if code not in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
}
"""What the VIP port serves: all but pulls (remoting-and-nameserver section 2.1)."""
