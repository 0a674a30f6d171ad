"""`penstock safety`: try and measure filters."""
