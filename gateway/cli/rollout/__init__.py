"""`penstock rollout`: its actions, and what they print."""
