"""API keys of upstream providers: from the environment, from files, or encrypted in the store."""
