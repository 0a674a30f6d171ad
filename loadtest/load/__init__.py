"""Benchmarks of a gateway under load: clients, stand-ins for upstreams, measurements and reports."""
