"""The section `models`: pools, engines, upstreams, routing, prices and adapters of one model each."""
