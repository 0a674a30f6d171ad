"""From an admitted request to its answer: attempts, failover, migration, hedging and prefill/decode pairs."""
