"""Client processes that a cluster starts, with its clock, addresses and event log."""
