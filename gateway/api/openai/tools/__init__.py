"""Tools of a chat: the client's offer, the calls a model may make of it, and calls of earlier turns."""
