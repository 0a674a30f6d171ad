"""Attempts to override a model's instructions: prompt injection and jailbreaks, found by what they say."""
