"""Benchmark jobs: what is missing, how a job moves from state to state, where its lines go."""
