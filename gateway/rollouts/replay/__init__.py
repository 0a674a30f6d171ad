"""Corpora of requests, and what versions of a model answered to them.

`corpus.py` is the file format, `chats.py` makes one of a file of chats, `redaction.py` takes personal data out.
`run_file.py` keeps the answers of a run, which `replay_run.py` asks for. `run_difference.py` compares two runs,
`judge.py` has a model say which answers are worse, `junit.py` writes what came of it for other programs.
"""
