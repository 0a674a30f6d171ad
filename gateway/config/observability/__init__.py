"""The section `observability`: journal, logs, metrics and traces."""
