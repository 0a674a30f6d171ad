"""OpenAI's Responses API: an adapter to chat completions, stored responses, and conversations."""
