"""Traces: where requests come from and go on to (W3C Trace Context), and what of them is shown to a collector."""
