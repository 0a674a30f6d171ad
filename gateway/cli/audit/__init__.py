"""`penstock audit`: verify, query and measure the audit journal."""
