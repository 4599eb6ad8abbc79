"""The event loop of a process, and its connections."""
