"""OpenAI's Responses API: a front over the chat path, what it keeps, and conversations."""
