"""The offload engine. Torch lives here; no web, no database, no environment variables."""
