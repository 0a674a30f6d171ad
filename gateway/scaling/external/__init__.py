"""What other tools are told that scale in the controller's place."""
