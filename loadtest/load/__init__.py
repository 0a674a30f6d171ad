"""Benchmarks of a gateway under load: load clients, mock upstreams, measurements and reports."""
