"""Replica servers: the replica's side of a gateway's session, and the engines behind it."""
