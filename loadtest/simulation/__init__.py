"""The fleet simulator in virtual time: traces, the simulated engine's model, and the gateway's routing policies."""
