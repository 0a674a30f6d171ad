"""An HTTP/1.1 client for upstreams: pooled connections, and backpressure on the answers."""
