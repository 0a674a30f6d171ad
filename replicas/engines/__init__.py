"""Engines behind the `Engine` seam, each in its own module and imported only when it is asked for."""
