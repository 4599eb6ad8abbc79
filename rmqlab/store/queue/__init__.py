"""Consume queues: the messages of one queue of a topic, by offset."""
