"""Rate limits and budgets: reserved before a request runs, settled to its real use, exact across all workers."""
