"""Who serves which topic: the route table and its process."""
