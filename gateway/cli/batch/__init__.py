"""`penstock batch`: submit and follow batches at a running gateway."""
