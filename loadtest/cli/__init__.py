"""`penstock bench`: one module a benchmark."""
