"""Faults of a running cluster: those in force, the rules of each node, and random schedules."""
