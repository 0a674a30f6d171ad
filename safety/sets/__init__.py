"""Labelled texts, by which the filters are measured, and how the measures are taken."""
