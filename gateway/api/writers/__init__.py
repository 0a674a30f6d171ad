"""Writers of answers: streamed or whole, as text or as parsed deltas, and after guards' verdicts."""
