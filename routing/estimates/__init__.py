"""What replicas are expected to take, in seconds: learned from what their engines report."""
