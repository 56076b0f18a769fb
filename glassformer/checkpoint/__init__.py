"""Models and training states on disk: safetensors and JSON in folders, never pickle."""
