"""What every process runs on: event loop, connections, clock, journal, settings.

Knows no server.
"""
