"""Which replica holds how much of a prompt in its KV cache."""
