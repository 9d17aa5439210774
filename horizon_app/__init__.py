"""Horizon: train models larger than the device, on one workstation."""

__version__ = "0.1.0"
