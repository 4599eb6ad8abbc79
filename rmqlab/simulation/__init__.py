"""A simulated machine: nodes in one process and thread, on a virtual clock.

Each node is a trio run of its own (`guest.py`), on its own clock and its own part of a simulated network. The machine
(`machine.py`) lets one node run at a time, in the order of the virtual time, and jumps over times without work. A node
that is paused is not run, and one that is killed is never run again: its tasks do not clean up.

The same seed leads to the same events, at any load of the real machine.
"""
