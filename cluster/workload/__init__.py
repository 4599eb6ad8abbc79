"""Processes that work against a cluster, started by it: they share its clock, its addresses and its event log."""
