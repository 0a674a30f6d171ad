"""Rollouts in virtual time: traffic on two versions, the product's own verdicts and stages, and how often they err."""
