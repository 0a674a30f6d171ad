"""What workers and operators tell each other of replicas, through the store: how they are, and which to drain."""
