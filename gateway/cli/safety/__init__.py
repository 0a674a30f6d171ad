"""`penstock safety`: tries and measures filters."""
