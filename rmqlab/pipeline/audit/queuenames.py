"""SQL of a queue's name in journals: `topic@broker:queue id`, in a column `name`.

The name is of any text: a dot must match line breaks, and `$` would match before one.
"""

QUEUE_ID = r"try_cast(regexp_extract(name, r':([0-9]+)\z', 1) as int)"
QUEUE_BROKER = r"regexp_extract(name, r'(?s)@(.*):[0-9]+\z', 1)"
IS_QUEUE = rf"name rlike r'(?s)@.*:[0-9]+\z' and {QUEUE_ID} is not null"
