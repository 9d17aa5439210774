"""Tiers, blocks and slots: who holds which bytes."""
