"""One optimizer step, many steps, and what surrounds them."""
