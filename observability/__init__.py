"""Observability of a running gateway: request records, logs, metrics, traces and the audit journal."""
