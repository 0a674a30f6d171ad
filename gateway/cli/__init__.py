"""The command line: each module adds its own parsers in `register`."""
