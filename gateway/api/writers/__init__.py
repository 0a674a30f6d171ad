"""Answers written to the client: streamed or whole, as text or as parsed deltas, and after guards' verdicts."""
