"""Runs the operations of operators for requests."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from rmqlab.cluster.control.account import Account
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.operate.errors import OperationError
from rmqlab.cluster.operate.lab import connection_to
from rmqlab.cluster.operate.results import as_json
from rmqlab.cluster.operate.session import Operator, open_operator
from rmqlab.runtime.clock import real_seconds

OPERATION_SECONDS = 30.0
"""Real seconds for a whole operation. Each of its requests has the limit of the command line."""


async def operate(cluster: Cluster, account: Account, operation: Callable[[Operator], Awaitable[Any]]) -> Any:
    """Return the document of an operation, as its command prints it with `--json`.

    OperationError if it has no result in time.
    """
    connection = connection_to(cluster.supervisor, account.access_key, account.secret_key)
    try:
        with trio.fail_after(real_seconds(OPERATION_SECONDS)):
            async with open_operator(connection) as operator:
                return as_json(await operation(operator))
    except trio.TooSlowError:
        raise OperationError(f"no result within {OPERATION_SECONDS:g} s") from None
