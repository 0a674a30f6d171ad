"""Reproductions of papers' figures in the simulator, with checks of the papers' claims."""
