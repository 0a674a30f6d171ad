"""The filters that the configuration names, and what they do to requests and answers."""
