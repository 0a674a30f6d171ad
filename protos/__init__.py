"""The wire protocol between gateway and replicas: its message types, their codec and the one tree of errors."""
