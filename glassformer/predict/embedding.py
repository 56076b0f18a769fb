"""Embedding: a text in, one vector out."""

from collections.abc import Sequence

import numpy as np
import torch

from glassformer.data.padded_batches import sorted_batches
from glassformer.errors import GlassformerError
from glassformer.inspection.neighbours import Array
from glassformer.models.bert import Bert
from glassformer.predict.predictor import Predictor
from glassformer.preprocessing.text import MaskedTextPreprocessing
from glassformer.text.framing import Frame

READ_AT_ONCE = 2**12  # tokens


class EmbedsTexts(Predictor):
    """A predictor whose model turns a text into a vector: the vectors of its tokens, pooled."""

    model: Bert
    preprocessing: MaskedTextPreprocessing

    @torch.inference_mode()
    def embed(self, text: str | Sequence[str]) -> Array:
        """The vector of a text, (D,). A list gives one row for each text, (N, D). Of a text that is
        too long, the beginning is read.

        >>> model.embed("the quick brown fox").shape
        (16,)
        >>> near, far = model.embed(["the quick fox", "a lazy dog"])
        """
        texts = [text] if isinstance(text, str) else list(text)
        frame = self._embedding_frame
        encoded = self.preprocessing.encode(texts)
        rows = [[*frame.before, *ids[: frame.room], *frame.after] or [0] for ids in encoded]
        vectors = np.zeros((len(rows), self.model.config.d_model), np.float32)
        for batch in sorted_batches(np.array([len(row) for row in rows]), READ_AT_ONCE):
            longest = max(len(rows[number]) for number in batch)
            ids = torch.zeros(len(batch), longest, dtype=torch.long)
            is_text = torch.zeros(len(batch), longest, dtype=torch.bool)
            for place, number in enumerate(batch):
                length = len(rows[number])
                ids[place, :length] = torch.tensor(rows[number])
                is_text[place, :length] = True
            device = self.model.device
            vectors[batch] = self.model.embed(ids.to(device), is_text.to(device)).cpu().numpy()
        if not np.isfinite(vectors).all():
            raise GlassformerError("the model computes NaN or infinity: its weights are damaged.")
        return vectors[0] if isinstance(text, str) else vectors

    @property
    def embedding_length(self) -> int:
        """The most tokens of a text that `embed` reads, with those that frame it."""
        limit, context = self.model.config.sentence_length, self.model.context_length
        return context if limit is None else min(limit, context)

    def is_too_long(self, text: str) -> bool:
        """Whether `embed` reads only the beginning of a text.

        >>> model.is_too_long("the quick brown fox")
        False
        """
        return self._embedding_frame.is_too_long(self.preprocessing.encode([text])[0])

    @property
    def _embedding_frame(self) -> Frame:
        return self.preprocessing.frame(self.embedding_length)
