"""Faults of requests: one file for each kind, and the dispatcher's hook."""
