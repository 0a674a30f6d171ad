"""Shadows: copies of requests that a candidate answers for nobody.

`shadow_room.py` says whether a candidate has room for one, and is pure; `shadow_sums.py` has what came of them in the
store. The requests themselves are made in `gateway/api/candidates/`.
"""
