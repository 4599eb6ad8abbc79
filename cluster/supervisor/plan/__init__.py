"""What a cluster is and becomes: nodes, roles, settings, status. No I/O."""
