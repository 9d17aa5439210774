"""Blocks on the move: partition, schedule, prefetch, transfers, stages."""
