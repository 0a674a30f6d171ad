"""`penstock route explain`: where a request would go, and why."""
