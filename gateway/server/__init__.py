"""Processes of the gateway: the supervisor, the workers, the ASGI application and what a worker is composed of."""
