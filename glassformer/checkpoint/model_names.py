"""What the name of a model or a run means: a name of the hub, a run, or a folder that is missing.

Apart from the rest, and without torch, so that a mistyped name is answered at once.
"""

import re
from pathlib import Path

from glassformer.wording import similar

CONFIG = "config.json"
RECIPE = "recipe.yaml"
A_MODEL = (
    "Pass a run, a model folder, a Hugging Face folder, a GGUF file, or the full name of a model "
    "on the hub, such as openai-community/gpt2."
)
A_RUN = "Pass the folder of a run that glassformer train or finetune created."

HUB_NAME = re.compile(r"[a-z0-9][\w.-]*/[a-z0-9][\w.-]*(@[\w./-]+)?", re.IGNORECASE | re.ASCII)


def is_hub_name(source: str) -> bool:
    """Whether a model of the Hugging Face hub is meant: `namespace/name`, and neither a path nor in
    a folder that exists."""
    if not HUB_NAME.fullmatch(source) or Path(source).exists():
        return False
    first = source.split("/")[0]
    return first != "runs" and not Path(first).exists()


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a training, and not only of a model."""
    return (folder / RECIPE).is_file()


def no_model(path: Path) -> str:
    """A model was expected in a folder that does not exist."""
    return f"{path} does not exist. {_did_you_mean(path, CONFIG) or A_MODEL}"


def no_run(path: Path) -> str:
    """A run was expected in a folder that does not exist."""
    return f"{path} does not exist. {_did_you_mean(path, RECIPE) or A_RUN}"


def _did_you_mean(path: Path, file: str) -> str:
    """A folder with this file and a similar name, beside the missing one or among the runs."""
    outer = [folder for folder in (path.parent, Path("runs")) if folder.is_dir()]
    files = (match for folder in outer for match in folder.glob(f"*/{file}"))
    folders = {match.parent.name: match.parent for match in files}
    near = similar(path.name, folders, cutoff=0.8)
    return f"Did you mean {folders[near]}?" if near else ""
