"""Replica discovery: by DNS, by the EndpointSlices of Kubernetes, and by registration in the store."""
