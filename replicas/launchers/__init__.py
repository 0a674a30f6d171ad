"""Launchers: what starts and stops replicas. The seam `Launcher`, its implementations, and their registry."""
