"""The prefix directory: how much of a prompt each replica holds in its KV cache."""
