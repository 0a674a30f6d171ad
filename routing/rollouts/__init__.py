"""Changes of a model's version under traffic, as far as they are pure: settings, splits, stages, measures, verdicts.

What reads and writes the store, warms replicas up or asks anybody is in gateway/rollouts/; whoever simulates rollouts
runs these.
"""
