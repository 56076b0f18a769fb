"""One of the processes that train a run together; `launch` starts it.

python -m glassformer.training.worker RUN UNTIL IS_FORCED BEGAN
"""

import io
import json
import os
import sys
import threading
import time
from pathlib import Path

from glassformer.errors import GlassformerError
from glassformer.machine import processes
from glassformer.training.launch import SENTENCE
from glassformer.training.run import fit
from glassformer.training.run_folder import RunFolder
from glassformer.wording import cause

LOST = ("gloo", "NCCL", "TCPStore", "Connection")  # in messages about other processes
LOST_OTHERS = 75
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # where the launcher looks for what a process reports


def main() -> None:
    path, until, is_forced, began = sys.argv[1:]
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    stream = sys.stderr if processes.is_first() else io.StringIO()
    try:
        run = RunFolder(Path(path), is_forced == "1")
        outcome = fit(run, stream, int(until) or None, float(began))
    except GlassformerError as error:
        _report(str(error))
    except OSError as error:
        _report(f"{error.filename or path}: {cause(error)}.")
    except RuntimeError as error:
        if not any(sign in str(error) for sign in LOST):
            raise
        sys.exit(LOST_OTHERS)  # their own end is what there is to report
    else:
        sys.stderr.flush()
        os._exit(outcome.exit_code)  # all is saved; threads of torch cannot fail any more


def _report(sentence: str) -> None:
    """Leave a sentence for the launcher, and end."""
    Path(os.environ[ERROR_FILE]).write_text(json.dumps({"message": sentence, SENTENCE: sentence}))
    sys.exit(1)


def _end_with(parent: int) -> None:
    """End when the launcher does, even if it was killed: it holds the lock of the run."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    main()
