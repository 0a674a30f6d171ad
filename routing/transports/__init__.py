"""Transports to replicas: one implementation of `Transport` per kind of engine, and their protocol clients."""
