"""The replicas of one model: which there are, how they are, and the snapshot that policies see."""
