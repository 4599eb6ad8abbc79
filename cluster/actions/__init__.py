"""Actions on the processes of a cluster: one table for the Python APIs, the command line, the keys and the scenarios."""
