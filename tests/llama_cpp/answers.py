"""What llama.cpp makes of a GGUF file. It runs in the environment of `make test-llama`.

Arguments: the file, and a JSON object with "ids", some tokens, and "texts". Prints a JSON object;
the logits after each of the ids are written beside the file.
"""

import json
import sys
from pathlib import Path

import numpy as np
from llama_cpp import Llama, llama_vocab_is_eog, llama_vocab_n_tokens

NEW_TOKENS = 16

path, asked = Path(sys.argv[1]), json.loads(sys.argv[2])
in_float32 = {"type_k": 0, "type_v": 0}  # the cache, which is in 16 bits by default
model = Llama(str(path), n_ctx=256, n_threads=1, n_threads_batch=1, logits_all=True, **in_float32)

model.eval(asked["ids"])
np.save(path.with_suffix(".npy"), model.scores[: len(asked["ids"])])
greedy: list[int] = []
while len(greedy) < NEW_TOKENS:
    greedy.append(int(model.scores[model.n_tokens - 1].argmax()))
    model.eval(greedy[-1:])

vocabulary = model._model.vocab
ids = range(llama_vocab_n_tokens(vocabulary))
answer = {
    "greedy": greedy,
    "begin": model.token_bos(),
    "ends": [id for id in ids if llama_vocab_is_eog(vocabulary, id)],
    "tokens": [model.tokenize(text.encode(), add_bos=True) for text in asked["texts"]],
}
sys.stdout.write(json.dumps(answer))
