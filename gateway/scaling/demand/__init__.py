"""What clients want of models that scale: counted and reported by workers, read and merged by the controller."""
