"""Pure: text to tokens and back, answers taken apart, clients' schemas checked. No I/O, no state of a worker."""
