"""The gateway: the API towards clients, tenants and limits, inference, and the command line. Packages only."""
