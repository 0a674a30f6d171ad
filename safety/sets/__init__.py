"""Labelled texts to evaluate the filters with, their scores and speed measurements."""
