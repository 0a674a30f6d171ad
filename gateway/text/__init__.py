"""Pure text handling: tokens, output parsing, schema checks. No I/O, no state of a worker."""
