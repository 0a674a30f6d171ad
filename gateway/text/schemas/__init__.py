"""Checks of what clients send for answers to keep to: JSON schemas, expressions and grammars. Pure, and no I/O."""
