"""The configuration file: one struct a section, its defaults and its checks. Reads files, opens no connection."""
