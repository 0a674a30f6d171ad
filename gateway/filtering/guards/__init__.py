"""Filters that ask somebody else: a model, a moderation service, or code that is not ours."""
