"""Load generation, measurements and their reports."""
