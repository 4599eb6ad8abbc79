"""Actions on the processes of a cluster: one table for the APIs, the commands, the keys and the scenarios."""
