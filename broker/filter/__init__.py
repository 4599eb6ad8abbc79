"""Filters of consumers: SQL92 expressions over properties, and the expressions each group registered."""
