"""`penstock batch`: submits and follows batches at a running gateway."""
