"""Shapes that change while requests run: which are legal on a host's GPUs, what a change costs, and when it pays.

Pure: decisions over snapshots. Whoever carries a change out stands elsewhere.
"""
