"""Filters of prompts and answers: which rules hold for whom, and guards outside the worker."""
