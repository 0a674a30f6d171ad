"""An HTTP/1.1 client for upstreams: connections that are kept, answers that come only as fast as they are read."""
