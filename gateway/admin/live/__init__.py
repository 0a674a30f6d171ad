"""Live snapshots for the console and `penstock top`: rates, latencies, the fleet, tenants, failures."""
