"""`penstock init`: its arguments and its report."""
