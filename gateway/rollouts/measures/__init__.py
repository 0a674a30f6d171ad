"""Measures of the requests of each version: workers count it and report it, the controller reads and merges it."""
