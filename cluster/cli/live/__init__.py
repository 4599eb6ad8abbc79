"""The live view: a cluster on one screen, and keys that act on it."""
