"""`/v1/batches` (OpenAI API reference, Batch)."""
