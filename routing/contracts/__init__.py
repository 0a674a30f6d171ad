"""Pure types of routing: replica views, requests, decisions, explanations; protocols RoutingPolicy and Transport."""
