"""The golden set: a corpus that both versions answer before a candidate gets traffic.

The controller asks for it, and one worker runs it, on the path of any request; `golden_jobs.py` is what both know of
it.
"""
