"""A process of a cluster: start, control channel, log, end."""
