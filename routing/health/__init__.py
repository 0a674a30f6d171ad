"""Replica health: pure rules on the reports of sessions, engines and requests. No I/O except one wait."""
