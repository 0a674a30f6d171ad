"""What is known at one moment of pools' replicas, from launchers, replicas and workers, and what follows. Pure."""
