"""Pure arithmetic on specs and machines: no torch, no files, no clock."""
