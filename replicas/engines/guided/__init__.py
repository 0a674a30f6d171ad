"""Guided decoding of the simulated engine: answers that match a schema, a regular expression, a grammar or tags."""
