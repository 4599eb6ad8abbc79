"""Faults of a running cluster: faults in force, rules of nodes, random schedules."""
