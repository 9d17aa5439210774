"""Counters, spans and the sink protocol: what the engine tells of itself."""
