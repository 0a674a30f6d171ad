"""What is listened on, and who stands before it: hosts and proxies."""
