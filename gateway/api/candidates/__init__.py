"""Requests that the gateway itself makes to one version of a model: copies of clients' requests (shadows), and gates.

`copies.py` hears of clients' requests and says what becomes of each; `candidate_requests.py` makes the requests.
"""
