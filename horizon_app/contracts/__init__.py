"""The words that cross a process or the wire: pydantic and the standard library, nothing else."""
