"""Decides how many replicas of which shape a model needs: pure functions over snapshots, with an injected clock.

Capacity, forecasts, signals, the mix of shapes at least cost, stability and budgets belong here; what reads the store,
holds the lease and calls launchers is in gateway/scaling/.
"""
