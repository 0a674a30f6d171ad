"""Models' answers taken apart: thoughts, text and tool calls, as they arrive."""
