"""Detection of personal data and secrets by form, checksum and the words before them."""
