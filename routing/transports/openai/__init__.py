"""Upstreams that speak OpenAI's HTTP API: their answers are relayed as bytes."""
