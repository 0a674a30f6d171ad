"""Where work waits: pure fair queueing over tenants and pure admission by what the fleet can take."""
