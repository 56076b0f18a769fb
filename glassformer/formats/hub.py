"""Models of the Hugging Face hub by name: downloaded once into its cache, then read from there.

    openai-community/gpt2              what is published now
    openai-community/gpt2@607a30d7…    a commit, a branch or a tag

A run, a model card and an export record the commit, so that they can be repeated.
"""

import logging
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from glassformer.checkpoint.model_names import CONFIG, is_hub_name
from glassformer.errors import GlassformerError, require
from glassformer.files import read_json
from glassformer.formats.conversion import INDEX
from glassformer.wording import cause

COMMIT = re.compile(r"[0-9a-f]{40}")
# Weights as pickle, and those of other frameworks, are not downloaded.
PATTERNS = ["*.json", "model*.safetensors", "adapter_model.safetensors"]
PATTERNS += ["*.spm", "*.jinja", "vocab.txt", "merges.txt"]
OTHERS = ["onnx/*", "openvino/*", "original/*", "coreml/*", "*/*.safetensors"]
CONFIGS = (CONFIG, "adapter_config.json")


def pinned(source: str) -> str:
    """A name with the commit that it means now; anything else as it is."""
    if not is_hub_name(source):
        return source
    commit = downloaded(source).name
    return f"{source.partition('@')[0]}@{commit}" if COMMIT.fullmatch(commit) else source


def downloaded(source: str) -> Path:
    """The folder in the cache that holds the model of this name, perhaps `@revision`."""
    require(
        "huggingface_hub",
        problem=f"{source} is not a local folder. Models of the Hugging Face hub are loaded by "
        "huggingface_hub.",
    )
    from huggingface_hub import constants

    return _snapshot(source, constants.HF_HUB_CACHE)


@lru_cache  # one command reads one commit, even if another is published meanwhile
def _snapshot(source: str, cache: str) -> Path:
    from huggingface_hub import errors, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    name, _, revision = source.partition("@")
    if not sys.stderr.isatty():
        disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs every retry
    try:
        folder = snapshot_download(
            name,
            revision=revision or None,
            cache_dir=cache,
            allow_patterns=PATTERNS,
            ignore_patterns=OTHERS,
        )
    except errors.GatedRepoError:
        raise GlassformerError(
            f"{source} must be requested on its page of the hub. Then set HF_TOKEN to your token."
        ) from None
    except errors.RepositoryNotFoundError:
        raise GlassformerError(
            f"{source} is neither a local folder nor a model on the Hugging Face hub. Check the "
            "name; private models require HF_TOKEN."
        ) from None
    except errors.RevisionNotFoundError:
        raise GlassformerError(
            f'{name} has no revision "{revision}" on the hub. Pass a branch, a tag or the hash of '
            "a commit after @."
        ) from None
    except (errors.LocalEntryNotFoundError, ConnectionError) as error:
        raise GlassformerError(_unreachable(name, revision, Path(cache), error)) from None
    except Exception as error:  # the call depends on a network and a disk
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        raise GlassformerError(f"{source} cannot be loaded: {where}{cause(error)}.") from error
    _check_complete(Path(folder), source)
    return Path(folder)


def _unreachable(name: str, revision: str, cache: Path, error: Any) -> str:
    """What is missing in the cache, and how to get it."""
    source = f"{name}@{revision}" if revision else name
    folder = cache / f"models--{name.replace('/', '--')}"
    commits = sorted(path.name for path in (folder / "snapshots").glob("*"))
    if partial := getattr(error, "snapshot_path", None):
        problem = f"{source} is not complete in the hub's cache ({partial})"
    elif commits:
        problem = f"the hub's cache ({cache}) has {name} only at {', '.join(commits)}"
    else:
        problem = f"{source} is neither a local folder nor in the hub's cache ({cache})"
    return (
        f"{problem}, and the hub cannot be reached. Check the connection and HF_HUB_OFFLINE, or "
        f"run `{_command(name, revision)}` where there is a network and copy the cache (HF_HOME)."
    )


def _check_complete(folder: Path, source: str) -> None:
    """A cache that was filled by another tool, or was interrupted, need not have every file."""
    name, _, revision = source.partition("@")
    again = f"run `{_command(name, revision)}` where there is a network"
    if not any((folder / config).is_file() for config in CONFIGS):
        raise GlassformerError(
            f"{source} has no config.json, so it is not a model in Hugging Face's format. To use a "
            f"GGUF file of it, run `hf download {name} FILE.gguf` and pass the file."
        )
    if (folder / INDEX).is_file():
        listed = read_json(folder / INDEX).get("weight_map")
        files = {*listed.values()} if isinstance(listed, dict) else set()
        if lost := sorted(file for file in map(str, files) if not (folder / file).is_file()):
            raise GlassformerError(
                f"{source}: {lost[0]} is missing in the hub's cache ({folder}). To get it, {again}."
            )
    elif not [*folder.glob("*.safetensors")]:
        raise GlassformerError(
            f"{source} has no model.safetensors. Either the hub has its weights only as a pickle "
            "(pytorch_model.bin), which can run any code when it is opened, so glassformer does "
            "not; then choose a release with safetensors. Or the hub's cache is not complete; then "
            f"{again}."
        )


def _command(name: str, revision: str) -> str:
    return f"hf download {name} --revision {revision}" if revision else f"hf download {name}"
