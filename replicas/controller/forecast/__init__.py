"""Forecasts of a model's rate: its history, the methods, and the choice among them by their rolling errors."""
