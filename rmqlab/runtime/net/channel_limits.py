"""What a channel receives and serves at once, and what a peer may be owed."""

RECEIVE_SIZE = 256 * 1024
"""Maximum size of one receive, in bytes."""
FRAMES_PER_PASS = 24
"""If a receive returns more frames than this, the next one is smaller: client, broker and slave work concurrently."""
SMALLEST_RECEIVE = 4 * 1024
PROCESS_MAX_KEPT = 200_000
"""Unserved frames of all channels. At this number, a receive is limited to SCARCE_RECEIVE. A frame takes some 300 bytes
of memory in addition to its content."""
SCARCE_RECEIVE = 1024
"""Size of a receive in bytes while too many frames wait."""
FRAMES_AT_ONCE = 2 * FRAMES_PER_PASS
"""Maximum number of frames of one channel served in one pass; the others wait for the next pass."""
SECONDS_AT_ONCE = 0.02
"""Seconds after which the remaining frames wait for the next pass: the cost of requests varies 100-fold."""
PASS_SECONDS = 0.25
"""Seconds that the channels of one pass share. Each serves at least one frame."""
HIGH_WATER = 8 * 2**20
"""Bytes owed to a peer from which on its requests are neither read nor served."""
SCARCE_HIGH_WATER = 64 * 2**10
"""The same limit while the process owes PROCESS_HIGH_WATER or more to all peers together."""
PROCESS_HIGH_WATER = 256 * 2**20
MAX_OWED = 256 * 2**20
"""Bytes owed to a peer above which its connection is closed."""
PROCESS_MAX_OWED = 768 * 2**20
"""Bytes owed to all peers above which a congested connection is closed."""
PROCESS_MAX_BUFFERED = 512 * 2**20
"""Bytes of incomplete frames of all peers above which a connection that adds to them is closed."""
PARKED_COST = 1024
"""Bytes counted for a request with an outstanding reply, in addition to its own size."""
MAX_PARKED = 128 * 2**20
"""Bytes of one peer's parked requests from which on no further request of it is served."""
SCARCE_MAX_PARKED = 2**20
"""The same limit while the parked requests of all peers count for PROCESS_MAX_PARKED or more."""
PROCESS_MAX_PARKED = 512 * 2**20
