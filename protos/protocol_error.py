"""What is wrong with a peer's bytes: for the log, and never for a client."""


class ProtocolError(ValueError):
    """Bytes that are not the protocol they should be, or a message out of place."""
