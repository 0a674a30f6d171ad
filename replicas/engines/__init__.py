"""Implementations of `Engine`, each imported only when it is configured."""
