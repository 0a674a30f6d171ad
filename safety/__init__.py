"""Content filters for prompts and answers: blocklists, expressions, personal data, injection, canaries, sizes."""
