"""The wire protocol: its message types, their codec and the one tree of errors."""
