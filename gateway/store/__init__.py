"""The Redis-protocol store that workers share; the only package that knows redis or Valkey."""
