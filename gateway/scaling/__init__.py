"""The controller of pools that scale: its lease, what it reads and writes in the store, and its calls to launchers."""
