"""The fork server, and the start of processes that it forks."""
