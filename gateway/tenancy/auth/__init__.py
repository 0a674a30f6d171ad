"""API keys: their records in the store, and the check of each request's key."""
