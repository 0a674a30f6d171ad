"""Checks of clients' JSON schemas, regular expressions and grammars. Pure, no I/O."""
