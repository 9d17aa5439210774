"""One process, one engine, one run: trains, journals what happens, and outlives the server that started it."""
