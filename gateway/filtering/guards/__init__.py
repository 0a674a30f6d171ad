"""Guards: filters by a model, a moderation service, or foreign code."""
