"""The layers of a model: how they are found, and what stands in their forwards."""
