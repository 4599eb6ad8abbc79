"""Replication: the HA stream and its two ends."""
