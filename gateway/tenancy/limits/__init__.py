"""Limits and budgets: reserved before a request runs, settled to what it used, exact across all workers."""
