"""Answers of upstreams that speak the API themselves: relayed, screened or translated."""
