"""Models of the Hugging Face hub by name: downloaded once into its cache, then read from there."""

import logging
import re
import sys
from pathlib import Path

from glassformer.errors import GlassformerError
from glassformer.wording import cause, install

NAME = re.compile(r"[a-z0-9][\w.-]*/[a-z0-9][\w.-]*(@[\w./-]+)?", re.IGNORECASE | re.ASCII)
# Weights as pickle, and those of other frameworks, are not downloaded.
PATTERNS = ["*.json", "*.safetensors", "*.spm", "*.jinja", "1_Pooling/config.json"]


def is_hub_name(source: str) -> bool:
    """Whether a model is meant that is not on this machine: `namespace/name`, and neither a path
    nor in a folder that exists."""
    if not NAME.fullmatch(source) or Path(source).exists():
        return False
    first = source.split("/")[0]
    return first != "runs" and not Path(first).exists()


def downloaded(source: str) -> Path:
    """The folder in the cache that holds the model of this name, perhaps `@revision`."""
    name, _, revision = source.partition("@")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import (
            GatedRepoError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
        )
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        raise GlassformerError(
            f"{source} is not a local folder. To load it from the Hugging Face hub, run "
            f"{install('huggingface_hub')}."
        ) from None
    if not sys.stderr.isatty():
        disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs every retry
    try:
        found = snapshot_download(name, revision=revision or None, allow_patterns=PATTERNS)
    except GatedRepoError:
        raise GlassformerError(
            f"{source} must be requested on its page of the hub. Then set HF_TOKEN to your token."
        ) from None
    except RepositoryNotFoundError:
        raise GlassformerError(
            f"{source} is neither a local folder nor a model on the Hugging Face hub. Check the "
            "name; private models require HF_TOKEN."
        ) from None
    except (LocalEntryNotFoundError, ConnectionError):
        raise GlassformerError(
            f"{source} is neither a local folder nor in the hub's cache, and the hub cannot be "
            f"reached. Check the connection and HF_HUB_OFFLINE, or run `hf download {name}` where "
            "there is a network and copy the cache (HF_HOME)."
        ) from None
    except Exception as error:  # the call depends on a network and a disk
        place = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        raise GlassformerError(f"{source} cannot be loaded: {place}{cause(error)}.") from error
    return Path(found)
