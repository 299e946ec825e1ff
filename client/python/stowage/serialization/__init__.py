"""How messages are written: as JSON, and as those of the API."""
