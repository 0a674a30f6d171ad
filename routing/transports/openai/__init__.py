"""The transport to upstreams with OpenAI's HTTP API, whose answers are relayed as bytes."""
