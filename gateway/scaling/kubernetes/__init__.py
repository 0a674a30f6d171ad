"""The launcher of Kubernetes: workloads whose scale follows the orders, and which pod is whose.

Pure but for the launcher itself: what a record of orders becomes, how a pod is, which pods a scale-down takes.
"""
