"""The training texts of the injection filter's phrases, and the fitting script."""
