"""A schedule that runs in the model's own autograd graph."""
