"""Hosts to listen on, and trusted proxies before them."""
