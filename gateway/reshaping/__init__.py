"""Shapes that change under traffic: their controller, what it keeps in the store, and what operators order of it.

What is decided, and when, is `replicas.reshape`'s.
"""
