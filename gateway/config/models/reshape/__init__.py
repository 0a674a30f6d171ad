"""When host groups change their shapes: the section `reshape` of a model, and its rules."""
