"""The supervisor: starts the processes of a cluster, watches them, runs commands."""
