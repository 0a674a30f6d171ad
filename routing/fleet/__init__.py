"""The replicas of one model: membership, connections, health, and the snapshot that policies see."""
