"""The keys with which the gateway asks providers: from the environment, from files, or encrypted in the store."""
