"""Anthropic's Messages API, on top of the chat path (gateway/api/writers/api_adapter.py)."""
