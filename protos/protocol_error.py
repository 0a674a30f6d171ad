"""The error for invalid bytes from a peer: for the log, never for a client."""


class ProtocolError(ValueError):
    """Bytes that violate their protocol, or a message out of place."""
