"""A broker that is a member of a DLedger group, as a process.

It is `rmqlab.broker.main` with the modules that only members need. A fork server that imports this module has them
before it forks members, which then share them.
"""

import rmqlab.broker.dledger.groupstore
import rmqlab.broker.dledger.membership  # noqa: F401 -- see above
from rmqlab.broker.main import load_config, main

__all__ = ["load_config", "main"]  # the names that the supervisor uses in a node's module
