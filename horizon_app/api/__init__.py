"""HTTP and WebSocket: translates between the wire and control, and decides nothing."""
