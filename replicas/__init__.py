"""Replica servers: the far end of a gateway's session, and the engines behind it."""
