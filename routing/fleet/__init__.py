"""The replicas of one model: which are wanted, connections, health, and the snapshot that policies see."""
