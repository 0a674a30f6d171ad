"""Personal data and secrets, found by their forms, checksums and the words before them."""
