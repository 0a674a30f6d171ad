"""gRPC servers of the gateway's own processes: addresses, TLS, health; methods take and give bytes."""
