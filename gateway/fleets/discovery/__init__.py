"""Replica discovery by DNS and by registration in the store."""
