"""Faults of a broker's disk: one file for each kind, and the hook that gives their effects to the store."""
