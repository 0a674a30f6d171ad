"""Filters of prompts and answers: the rules of each tenant and model, and guards outside the worker."""
