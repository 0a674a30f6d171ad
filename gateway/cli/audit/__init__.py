"""`penstock audit`: verifies, queries and measures the audit journal."""
