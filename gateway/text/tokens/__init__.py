"""Tokenizers, chat templates, detokenization and stop strings."""
