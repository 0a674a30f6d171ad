"""Grafana's dashboards and Prometheus' rules, generated from the declared metrics."""
