"""Pure: what policies decide about and with; the seams RoutingPolicy and Transport, and explanations."""
