"""Load on an endpoint picker, by a client that plays Envoy."""
