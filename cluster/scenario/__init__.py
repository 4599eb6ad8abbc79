"""Scenarios: a cluster, its work, what is done to it and when, and what must be seen. Played, recorded, judged."""
