"""The API over HTTP: a package for each API family, `server` for what they share, `relay` for upstreams' bytes."""
