"""The wires to replicas: one module for each kind of engine behind `Transport`, and what they share."""
