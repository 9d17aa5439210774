"""Backends: slots, copies and events on a kind of device."""
