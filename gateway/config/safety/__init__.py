"""The section `safety`: filters, guards, rules and policies, and their checks."""
