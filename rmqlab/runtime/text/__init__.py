"""Texts for people: numbers, times, and bytes that peers sent."""
