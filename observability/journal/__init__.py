"""The audit journal: requests and admin changes on local disk, in chains that reveal cuts and edits."""
