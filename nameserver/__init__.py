"""A nameserver: the route table and its process."""
