"""How two answers to one request differ, for shadows and replays alike; pure.

`answer.py` is an answer apart from its API, `read_answer.py` reads one, `difference.py` compares two of them,
`difference_sums.py` adds up what many comparisons say.
"""
