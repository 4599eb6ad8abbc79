"""Faults of a broker's disk: one file for each kind, and the hook of the store."""
