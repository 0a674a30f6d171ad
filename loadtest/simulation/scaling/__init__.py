"""Fleets that grow and shrink in virtual time: loads, lives of replicas, rounds of a scaler, and what came of them."""
