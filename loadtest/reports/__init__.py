"""What benchmarks, the simulator and reproductions share: statistics, tables and plots."""
