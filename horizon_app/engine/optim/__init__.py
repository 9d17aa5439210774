"""The update of the weights: AdamW, clipping, the learning rate."""
