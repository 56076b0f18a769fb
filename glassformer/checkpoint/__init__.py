"""Models and training states on disk: safetensors and JSON in folders, never pickle.

model_folder.py     a model with its preprocessing, in one folder: what every verb takes
training_state.py   everything a training needs to continue, in one folder per step
"""
