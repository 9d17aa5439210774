"""The checklist of a run: pure functions over what it has recorded, a module per symptom. Knows no database."""
