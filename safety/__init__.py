"""Filters on the way in and on the way out."""
