"""Inference: from a decoded request to a running generation (encode, bound, reserve, admit, dispatch)."""
