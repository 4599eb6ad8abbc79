"""Fixtures that more than one folder of tests uses."""
