"""A RocketMQ 4.9 master/slave cluster on a laptop.

Real processes, real protocols, real files, real failures.
"""

__version__ = "0.1.0"
