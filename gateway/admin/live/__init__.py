"""How the gateway does now, for the console and `penstock top`: rates, times, the fleet, tenants, failures."""
