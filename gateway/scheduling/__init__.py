"""Admission to a model's fleet: pure capacity, shares and fair queueing over tenants, and the queue itself."""
