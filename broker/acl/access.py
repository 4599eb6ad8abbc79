"""The resources, account and signature of a request (class PlainAccessValidator)."""

from collections.abc import Callable, Iterator

import attrs

from rmqlab.broker.acl.account import PUB, SUB
from rmqlab.remoting import acl
from rmqlab.remoting.bodies.heartbeat import HeartbeatData
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.names import RETRY_PREFIX

_NOT_SIGNED = (acl.SIGNATURE, "_UNIQUE_KEY_QUERY")
"""4.9.8 omits the second too, although its clients sign it: it denies their signed queries by key."""


@attrs.frozen
class Access:
    """One request, as access control sees it."""

    code: int
    address: str
    """The client's IP address."""
    access_key: str | None = None
    signature: str | None = None
    content: bytes = b""
    """The bytes that the client signed."""
    resources: Callable[[], dict[str, int]] = dict
    """Returns the permission that is needed, by topic and by retry topic of a group.

    BodyError for an invalid heartbeat. Call it once the signature is known to be right: a heartbeat is parsed for it.
    """


def access_of(command: Command, peer: str) -> Access:
    """Read the access that a request of a peer, `ip:port`, needs."""
    address = peer.rpartition(":")[0]
    if command.raw_fields is None:  # without ext fields there is no signature: only a white-listed address is accepted
        return Access(command.code, address)
    fields = command.ext_fields
    return Access(
        command.code,
        address,
        fields.get(acl.ACCESS_KEY),
        fields.get(acl.SIGNATURE),
        acl.signed_content(fields, command.body, _NOT_SIGNED),
        lambda: {name: perm for name, perm in _resources(command, fields) if name is not None},
    )


def _resources(command: Command, fields: dict[str, str]) -> Iterator[tuple[str | None, int]]:
    """Return the permissions a request needs.

    Codes unknown to 4.9's list, batches included, need only an account.
    """
    match command.code:
        case RequestCode.SEND_MESSAGE:
            yield _sent_to(fields.get("topic"), fields.get("group"))  # the header has no `group`: any account may retry
        case RequestCode.SEND_MESSAGE_V2:
            yield _sent_to(fields.get("b"), fields.get("a"))
        case RequestCode.CONSUMER_SEND_MSG_BACK:
            yield _group(fields.get("group")), SUB
        case RequestCode.PULL_MESSAGE | RequestCode.LITE_PULL_MESSAGE | RequestCode.UPDATE_CONSUMER_OFFSET:
            yield fields.get("topic"), SUB
            yield _group(fields.get("consumerGroup")), SUB
        case RequestCode.QUERY_MESSAGE:
            yield fields.get("topic"), SUB
        case RequestCode.UNREGISTER_CLIENT | RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            yield _group(fields.get("consumerGroup")), SUB
        case RequestCode.HEART_BEAT:
            for consumer in HeartbeatData.decode(command.body).consumer_data_set:
                yield _group(consumer.group_name), SUB
                for subscription in consumer.subscription_data_set:
                    yield subscription.topic, SUB
        case _:
            pass


def _sent_to(topic: str | None, group: str | None) -> tuple[str | None, int]:
    """Return the resource of a send and the permission it needs.

    The group and SUB for a retry topic, else the topic and PUB.
    """
    return (_group(group), SUB) if topic is not None and topic.startswith(RETRY_PREFIX) else (topic, PUB)


def _group(name: str | None) -> str | None:
    return None if name is None else RETRY_PREFIX + name
