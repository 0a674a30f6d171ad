"""Whether a candidate is as good as the baseline: pure, valid however often it is asked."""
