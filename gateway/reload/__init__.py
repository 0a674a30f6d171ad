"""A new configuration without a restart: what it changes, when it is read, and how all processes take it together."""
