"""`penstock bench`: one module per benchmark."""
