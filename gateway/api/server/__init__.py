"""What every endpoint shares: the HTTP exchange, errors, deadlines, the watchdog, headers."""
