"""Loads for gateways whose models scale: what becomes of each request, and how the fleet follows."""
