"""Processes of the gateway: the supervisor, the workers, their ASGI application and its composition root."""
