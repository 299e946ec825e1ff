"""What is kept of tensors between a forward, its replays and its backward."""
