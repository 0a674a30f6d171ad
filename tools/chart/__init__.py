"""What is made from the Helm chart: the table of its values, and its examples as plain manifests."""
