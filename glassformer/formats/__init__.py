"""Models of other tools, in both directions.

families/, family.py, links.py     how their configs and tensors correspond to ours
open_model.py                      opening and importing; a format of files is a row there
export.py                          exporting; a format is a row there and a file export_….py
"""
