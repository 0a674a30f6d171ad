"""What a worker tells of its requests and of itself."""
