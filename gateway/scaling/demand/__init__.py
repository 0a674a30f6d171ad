"""Demand for models that scale: workers count requests and tokens and report them, the controller merges reports."""
