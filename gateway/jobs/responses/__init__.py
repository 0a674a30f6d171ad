"""Responses and conversations of OpenAI's Responses API, as the store keeps them."""
