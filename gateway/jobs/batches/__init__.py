"""Batches: a job is a file of requests, a task a run of its lines; workers run tasks when there is room."""
