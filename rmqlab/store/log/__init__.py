"""The commit log: all messages of all topics in arrival order."""
