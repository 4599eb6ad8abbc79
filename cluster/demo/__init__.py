"""The demo: kills the master of a loaded cluster, and accounts for every message."""
