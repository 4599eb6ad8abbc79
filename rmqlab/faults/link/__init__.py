"""Faults of the link between two nodes: one file for each kind, and the event loop's hook that plays them."""
