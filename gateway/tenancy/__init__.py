"""Tenants, API keys, limits, and the keys of upstream providers."""
