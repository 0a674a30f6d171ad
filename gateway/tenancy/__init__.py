"""Who may use the gateway and how much: tenants, API keys, limits, and the keys of upstream providers."""
