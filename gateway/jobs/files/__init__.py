"""Uploaded files: content behind one seam, and their records in the store."""
