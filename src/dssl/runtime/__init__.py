"""The machine: files, out-of-core matrices, processes, distributed training, environment."""
