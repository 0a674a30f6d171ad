"""The admin API: tenants, keys, limits and usage over HTTP, on a port and with a key of its own."""
