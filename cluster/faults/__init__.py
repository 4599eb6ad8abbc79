"""Faults of a running cluster: what they are, what each node is told of them, random schedules of them."""
