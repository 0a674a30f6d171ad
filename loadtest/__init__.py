"""Benchmarks: load generation, the fleet simulator, reproductions of papers, and their reports."""
