"""What a training will need, before it begins: memory, time, devices, money."""
