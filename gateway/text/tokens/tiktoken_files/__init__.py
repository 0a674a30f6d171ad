"""Vocabularies that are published as tiktoken's file with a Python file beside it, which is read and never run."""
