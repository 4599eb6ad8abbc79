"""A stored message made new: what is delivered late, handed back, committed or checked is stored once more."""

from remoting.message import NewMessage, StoredMessage, format_properties


def copy_of(
    stored: StoredMessage, topic: str, queue_id: int, *, properties: dict[str, str] | None = None
) -> NewMessage:
    """The same message for another queue. Body, flags, times and hosts are kept, and the text of its properties too.

    With `properties` it is given these instead.
    """
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=stored.body,
        born_host=stored.born_host,
        store_host=stored.store_host,
        born_timestamp=stored.born_timestamp,
        flag=stored.flag,
        sys_flag=stored.sys_flag,
        reconsume_times=stored.reconsume_times,
        properties=stored.properties_text if properties is None else format_properties(properties),
    )
