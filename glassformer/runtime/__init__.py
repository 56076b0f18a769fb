"""What this machine can do, and what glassformer therefore chooses. torch is imported inside the
functions, so that reading a recipe or printing help does not wait for it.

host.py           the machine, and device, precision and threads put into force
precision.py      which precision is fast and survives: tried in child processes (probe.py)
random_seeds.py   every random number is a function of (seed, step)
"""
