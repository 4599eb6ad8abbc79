"""Filters of consumers: SQL92 expressions over properties.

A table holds the expressions that each group registered.
"""
