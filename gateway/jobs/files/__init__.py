"""Uploaded files: their content behind one seam, and in the store what is known of them."""
