"""Replicas that share the GPUs of a host: streams between them, and what becomes of orders to change their shape.

What a member decides stands in replicas/reshape/member.py; here is who carries it out.
"""
