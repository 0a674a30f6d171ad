"""Drift, pure: histograms of what clients send and models answer, and whether a window of them is still like the
reference.
"""
