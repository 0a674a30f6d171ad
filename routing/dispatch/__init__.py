"""Runs an admitted request on replicas: attempts, failover, migration, hedging and prefill/decode pairs."""
