"""The short form of a spec: keys and lists that spell CUDA's variants (`cuda`, `gpus`), and rows of such hardware."""
