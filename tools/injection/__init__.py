"""The texts that the injection filter's phrases are learned from, and the fit."""
