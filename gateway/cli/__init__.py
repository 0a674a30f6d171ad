"""The command line's subcommands: each module adds its own parsers in `register`."""
