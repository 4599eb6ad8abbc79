"""The brokers that may have stored each message which no store has.

Those of its acknowledgements, of its deliveries, and of attempts that may have stored it. Few messages have others than
their fate names: attempts that failed, and redeliveries.
"""

from typing import Final

from rmqlab.pipeline.audit.run import Run
from rmqlab.verdict.outcomes import REFUSED

TABLE: Final = "possible_brokers"
"""Columns: message_id, and brokers; empty if an acknowledgement names none, because any broker may have stored it."""
_POSSIBLE: Final = f"""
with others as (
    select message_id, collect_set(broker) brokers from (
        select message_id, broker from failures where broker != '' and outcome is distinct from '{REFUSED}'
        union all select message_id, broker from sends where broker is not null and not acknowledged
            and outcome is distinct from '{REFUSED}'
        union all select message_id, broker from deliveries where reconsume_times > 0)
    group by message_id
)
select f.message_id, if(exists(acknowledgements, one -> one.broker is null), cast(array() as array<string>),
    array_sort(array_distinct(concat(transform(acknowledgements, one -> one.broker),
        transform(delivered, one -> one.broker), coalesce(o.brokers, array()))))) brokers
from fates f left join others o on f.message_id = o.message_id where not is_stored
"""


def define(run: Run) -> None:
    """Define the relation."""
    run.relations.define(TABLE, _POSSIBLE)
