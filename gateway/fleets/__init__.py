"""The replicas of each model: specs from the configuration, discovery, and what workers share through the store."""
