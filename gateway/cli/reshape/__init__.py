"""`penstock reshape`: its actions, and what they print."""
