"""What is made of findings: applications, models with engines and shapes, and the text of a configuration."""
