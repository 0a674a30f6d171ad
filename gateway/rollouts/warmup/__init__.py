"""Requests that a candidate's replicas answer before they get those of clients."""
