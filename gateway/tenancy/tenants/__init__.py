"""Tenants: who may use what, how much of it, and with what claim on the fleet."""
