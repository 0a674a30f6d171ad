"""Tools of a chat: what a client offers, what a model may call of it, and calls of earlier turns."""
