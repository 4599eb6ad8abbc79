"""Faults of a node's wall clock: one file for each kind, and the clock's hook."""
