"""The audit journal: what requests and admin changes were, on local disk, so that a cut or an edit is found."""
