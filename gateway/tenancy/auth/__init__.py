"""API keys: records in the store, and authentication of requests."""
