"""Tenants: records, permissions, tiers, and the registry that changes them."""
