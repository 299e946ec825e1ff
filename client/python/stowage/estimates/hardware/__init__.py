"""GPUs, and the kernels that they choose."""
