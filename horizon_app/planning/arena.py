"""The fewest and the most slots that an arena has use for."""

SMALLEST_ARENA = 2
"""One slot for weights, one for gradients."""
GRADIENT_SLOTS = 2
"""Slots that gradients take at most: one can leave while the other fills."""


def most_slots(num_blocks: int) -> int:
    """Slots that hold a whole model and its gradients on their way; more have no use."""
    return max(num_blocks + GRADIENT_SLOTS, SMALLEST_ARENA)
