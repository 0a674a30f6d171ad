"""The texts that the phrases are learned from, and how they are learned."""
