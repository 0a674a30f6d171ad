"""The HTTP side: one module per API family, one for what all exchanges share."""
