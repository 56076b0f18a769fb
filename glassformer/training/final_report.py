"""The last step of a training: a page about the run, `report.html`."""

from dataclasses import replace
from typing import TextIO

from glassformer.atomic_files import write_file
from glassformer.story.report import page
from glassformer.training.outcome import Outcome
from glassformer.training.run_folder import REPORT, RunFolder
from glassformer.training.run_report import report_of
from glassformer.wording import first_line


def write_report(outcome: Outcome, run: RunFolder, stream: TextIO) -> Outcome:
    """The outcome with its page, which is written unless it is there already."""
    path = run.path / REPORT
    if not path.is_file():
        try:
            write_file(path, page([report_of(run)]))
        except Exception as error:  # the model is trained and saved: nothing here may undo that
            print(f"note: no {REPORT} was written: {first_line(error)}", file=stream)
            return outcome
    return replace(outcome, report=path)
