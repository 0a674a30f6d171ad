"""Changes of a model's version under traffic: who gets which version, what is measured of both, and what follows.

A rollout's state, what comes next and how versions are compared is pure, and in routing/rollouts/. Here
`controller.py` acts on it in the controller's process, and alone writes; `split_follower.py` is how workers follow,
`measures/` what they report. `shadow/` copies requests to a candidate, `replay/` asks it a corpus, `drift/` watches
what clients send. Workers import of it only what the configuration asks for.
"""
