"""Kubernetes: the connection to an API server, what is read of its objects, and lists that are kept by watching.

Only this package imports the client library (the extra `kubernetes`), and whoever needs it imports it late: where no
pool is of Kubernetes it is not even installed. Nothing in here knows pools, fleets or launchers.
"""
