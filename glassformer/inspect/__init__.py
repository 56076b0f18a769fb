"""What a model computed on an input, and the pages and pictures that show it.

    model, input → Subject → Inspection → a story (a page), views (pictures, tables, JSON), OverTime

Files use the legend of shapes in `glassformer/nn`, and beside it

    L  layers that are shown      P  predictions
    N  all layers                 C  tokens or labels that a prediction chooses from
    W  windows of an image        U  uses of a word
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Doubles = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]
Pixels = NDArray[np.uint8]
"""(height, width, 1 or 3)"""
