"""`/v1/files` (OpenAI API reference, Files)."""
