"""A fleet in virtual time: traces, the replicas' own engine model, and the policies that route in the gateway."""
