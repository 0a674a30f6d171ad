"""Streaming parsers of models' answers into reasoning, text and tool calls."""
