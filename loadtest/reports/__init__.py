"""Statistics, tables and plots shared by benchmarks, the simulator and reproductions."""
