"""Shared parts of all endpoints: the HTTP exchange, errors, deadlines, the watchdog, headers."""
