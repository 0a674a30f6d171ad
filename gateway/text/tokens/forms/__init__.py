"""Forms of a chat template: which messages it writes, found out by rendering them, and messages put into that form."""
