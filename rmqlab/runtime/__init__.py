"""Base of every process: event loop, connections, clock, journal, settings.

Independent of servers.
"""
