"""The model as stages: discovery, blockwise products, weights in and out."""
