"""Which replicas there are, where the configuration does not list them: found by DNS, or registered by themselves."""
