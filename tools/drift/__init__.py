"""The false alarms of drift on traffic that does not change, and how soon it finds changes that it shall find."""
