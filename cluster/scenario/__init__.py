"""Scenarios: a cluster, its workloads, timed actions, and expectations.

Played, recorded and judged.
"""
