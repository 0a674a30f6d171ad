"""Tokenizers, chat templates and the text of answers."""
