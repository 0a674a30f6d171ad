"""The metrics page: what workers count, and what the store knows of limits, scaling, rollouts and drift."""
