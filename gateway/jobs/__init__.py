"""Work that outlives a request: files, batches of requests, stored and background responses."""
