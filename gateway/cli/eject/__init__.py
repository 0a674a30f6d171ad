"""`penstock eject`."""
