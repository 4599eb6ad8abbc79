"""Journals: the events of a cluster, written, followed and surveyed."""
