"""Telemetry of one worker: request records, gauges of its parts, hashes, and the sinks that it is composed of."""
