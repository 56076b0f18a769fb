"""What this machine can do, and what glassformer therefore chooses. torch is imported inside the
functions, so that reading a recipe or printing help does not wait for it."""
