"""The section `store`: which store workers share, and what an address of one says."""
