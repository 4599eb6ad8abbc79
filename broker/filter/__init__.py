"""Filtering messages for consumers: SQL92 expressions over properties, and who registered which."""
