"""Counters, gauges and histograms: declared in one place, folded from ended requests, shared between processes."""
