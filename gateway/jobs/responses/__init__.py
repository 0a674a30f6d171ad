"""Stored responses and conversations of OpenAI's Responses API, and background responses."""
