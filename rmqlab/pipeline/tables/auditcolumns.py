"""Columns that several tables of an audit have."""

from rmqlab.pipeline.tables.audittable import Column

_SEQ = "struct<at:bigint,last:boolean,process:string,place:bigint>"

AT = Column("at", "bigint", "time of the event, ms")
SEQ = Column("seq", _SEQ, "order of all events: time, the supervisor last, process, place in its journal")
MESSAGE = Column("message_id", "string", "the message's unique id (property UNIQ_KEY)")
NODE = Column("node", "string", "node of the store")
OBSERVER = Column("node", "string", "process that observed it")
GROUP = Column("group", "string", "consumer group")
TOPIC = Column("topic", "string", "topic")
BROKER = Column("broker", "string", "broker name")
QUEUE = Column("queue", "int", "queue id")
OFFSET = Column("offset", "bigint", "queue offset")
LOG_OFFSET = Column("log_offset", "bigint", "commit log offset, bytes")
UNTIL = Column("until", "bigint", "end, ms; null if it lasts until the end of the run")
