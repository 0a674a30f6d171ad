"""Benchmarks of clients' latency while a rollout runs beside them."""
