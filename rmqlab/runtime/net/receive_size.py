"""How much of a connection's bytes to receive at once."""

from rmqlab.runtime.net.channel_limits import FRAMES_PER_PASS, RECEIVE_SIZE, SMALLEST_RECEIVE


class ReceiveSize:
    """Fits receives to the size of frames: each shall return FRAMES_PER_PASS."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = RECEIVE_SIZE
        """Maximum size of the next receive."""

    def fit(self, received: int, frames: int) -> None:
        """Adapt to the number of whole frames in the bytes that were received."""
        if frames > FRAMES_PER_PASS:
            self.bytes = max(received // frames * FRAMES_PER_PASS, SMALLEST_RECEIVE)
        elif frames < FRAMES_PER_PASS // 4 and received == self.bytes < RECEIVE_SIZE:
            self.bytes *= 2  # frames have become larger
