"""Distributed tracing: W3C Trace Context in and out, sampling, and spans for a collector."""
