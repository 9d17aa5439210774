"""Use cases: submitting, starting, watching, stopping and deleting runs. Knows nothing of HTTP."""
