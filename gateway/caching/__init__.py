"""Bounded caches in a worker's memory."""
