"""What tests of whole clusters without real nodes share."""

from typing import Final

from rmqlab.cluster.supervisor.plan.topology import NodeKind

FAKES: Final = {NodeKind.NAMESERVER: "fakenode", NodeKind.BROKER: "fakenode"}
"""The module `fakenode` beside these tests instead of the real nodes."""
LONG: Final = 60.0
"""Real seconds that a node may take to respond on a busy machine."""
