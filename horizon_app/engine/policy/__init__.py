"""Replacement policies: which block leaves a full arena."""
