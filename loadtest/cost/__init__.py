"""The price list of requests: counts of one worker that do not depend on the machine, and the budget they must keep."""
