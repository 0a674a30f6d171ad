"""The configured filters, applied to requests and answers."""
