"""Counts of what the requests of two versions came to, by slices of time. Pure."""
