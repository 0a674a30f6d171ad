"""Drift of models that have it configured: workers count it into the store, and whoever looks compares it there."""
