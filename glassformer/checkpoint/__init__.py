"""Models and training states on disk: safetensors and JSON in folders, never pickle.

atomic.py   a file or folder appears whole or not at all
folder.py   a model with its tokenizer, in one folder: what every verb takes
state.py    everything a training needs to go on, in one folder per step
"""
