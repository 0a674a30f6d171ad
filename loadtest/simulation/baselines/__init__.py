"""Policies that imitate other routers, for comparison in the simulator."""
