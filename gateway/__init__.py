"""The gateway: the API towards clients, keys, tokens and the command line."""
