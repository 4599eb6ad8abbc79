"""The supervisor: starts the processes of a cluster, watches them, and carries out commands."""
