"""Namespaces: the application's `orders` is `NS%orders` on the wire in NS. Pure.

Prefixes stay in front, as in `%RETRY%NS%billing`. RocketMQ's own names belong to no namespace.
Source: class NamespaceUtil of 4.9.8.
"""

from rmqlab.remoting.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, is_system_topic

SEPARATOR = "%"


def with_namespace(namespace: str | None, name: str) -> str:
    """Return the name of a topic or group on the wire.

    A name that has the namespace stays as it is.
    """
    if not namespace or not name or _is_system(name):
        return name
    prefix, bare = _split(name)
    if bare.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{bare}"


def without_namespace(namespace: str | None, name: str) -> str:
    """Return the application's name of a topic or group.

    A name of another namespace stays as it is.
    """
    if not namespace or _is_system(name):
        return name
    prefix, bare = _split(name)
    return prefix + bare.removeprefix(namespace + SEPARATOR)


def _is_system(name: str) -> bool:
    return is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX)


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
