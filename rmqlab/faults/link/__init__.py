"""Faults of the link between two nodes: one file for each kind, and their hook."""
