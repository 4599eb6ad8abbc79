"""Bugs in our own code that a hunt has to find (issue 17)."""
