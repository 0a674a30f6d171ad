"""Estimates of step times, queue pacing and answer lengths, learned from what engines report."""
