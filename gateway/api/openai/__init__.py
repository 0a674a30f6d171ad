"""OpenAI's API: chat and text completions, embeddings, reranking, tokenizing, moderations and models."""
