"""Actions on the processes of a cluster, in one table.

The Python APIs, the commands, the keys of the live view and the scenarios use the same table.
"""
