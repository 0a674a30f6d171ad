"""Routing: pools of replicas, the policies that pick one, and the transports that carry a request there."""
