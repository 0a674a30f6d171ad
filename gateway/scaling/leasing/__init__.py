"""Leases of controllers: the lease, rounds that its holder holds, and a clock that keeps pace with the store's."""
