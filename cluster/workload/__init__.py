"""Client processes that a cluster starts: they share its clock, its addresses and its event log."""
