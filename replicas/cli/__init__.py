"""`penstock replica`: options and engines of a replica process."""
