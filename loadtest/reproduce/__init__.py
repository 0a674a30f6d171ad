"""Figures of papers, drawn again from the simulator, and what the papers say of them held against it."""
