"""Transports to replicas: a module for each kind of engine behind `Transport`, and the clients under them."""
