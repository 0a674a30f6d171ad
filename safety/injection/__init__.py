"""Detection of prompt injection and jailbreaks: rules over folded text, and learned phrases for prompts."""
