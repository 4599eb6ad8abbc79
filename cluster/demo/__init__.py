"""The demo: a cluster under load whose master is killed, and the fate of every message."""
