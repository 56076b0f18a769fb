"""Does transformers compute the same from an exported folder? Asked in a process of its own, if it
is installed: the package never imports it."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import save_file
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.pretrained.probes import Probe

SECONDS = 600
# Reads the folder and the inputs; prints the largest difference and the tokens of a text.
PROGRAM = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import torch, transformers
from safetensors.torch import load_file
transformers.logging.set_verbosity_error()
folder, path, text = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
inputs = load_file(path)
expected, kept = inputs.pop("expected"), inputs.pop("kept", None)
name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
model, report = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
with torch.inference_mode():
    found = model.eval()(**inputs)
found = found.logits if hasattr(found, "logits") else found.last_hidden_state
if kept is not None and found.dim() == 3:
    found, expected = found[kept.bool()], expected[kept.bool()]
ids = None
if text is not None:
    ids = transformers.AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
missing = sorted(k for k in report["missing_keys"] if "pooler" not in k and "embed_pos" not in k)
print(json.dumps({"difference": float((found - expected).abs().max()), "ids": ids,
                  "version": transformers.__version__, "missing": missing}))
"""


def difference_in_transformers(
    folder: Path, probe: Probe, expected: Tensor, text: str | None, ids: list[int]
) -> tuple[str, float] | None:
    """Its name with its version, and the largest difference in logits; None: not installed."""
    if find_spec("transformers") is None:
        return None
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "inputs.safetensors"
        kept = {} if probe.kept is None else {"kept": probe.kept.to(expected.dtype)}
        save_file({**probe.inputs, "expected": expected.contiguous(), **kept}, path)
        arguments = [sys.executable, "-c", PROGRAM, str(folder), str(path), json.dumps(text)]
        try:
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise GlassformerError(
                f"transformers did not finish within {SECONDS} seconds when it loaded {folder} to "
                "compare. Nothing was written. Try again when the machine is less busy."
            ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        raise GlassformerError(f"transformers cannot load {folder}: {last}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if found["missing"]:
        raise GlassformerError(
            f"transformers misses {', '.join(found['missing'][:3])} in {folder}."
        )
    if text is not None and found["ids"] != ids:
        raise GlassformerError(
            f"transformers reads a text with the tokenizer of {folder} as other tokens than "
            "glassformer does."
        )
    return f"transformers {found['version']}", found["difference"]
