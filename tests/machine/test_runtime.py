"""What glassformer promises about the machine it runs on."""

import importlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from glassformer.errors import GlassformerError, UsageError
from glassformer.machine import facts, host, precision
from glassformer.machine import facts as load
from glassformer.machine.host import Machine, machine, pick_device, set_up
from glassformer.machine.precision import Measurement, Speed, cache_dir
from glassformer.machine.probe import WIDTHS

# The package shows the verb under this name; the module behind it is wanted here.
doctor_verb = importlib.import_module("glassformer.cli.machine")

SPEEDS = "[[128, 1, 0.1], [512, 1, 0.2], [128, 2, 0.3], [512, 2, 0.1]]"  # width, threads, speed
SURVIVES = f"import sys; sys.stdin.readline(); print({SPEEDS})"
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
HANGS = "import time; time.sleep(60)"
RAISES = "raise RuntimeError('no kernel for this')"
SAYS_NOTHING = ""


def fast(tflops: float, threads: int = 1, width: int = 512) -> Measurement:
    return Measurement((Speed(width, threads, tflops),))


ONLY_FLOAT32 = {
    "float32": fast(0.3, 2),
    "bfloat16": Measurement(problem="died: SIGILL"),
    "float16": Measurement(problem="not tried"),
}


def child(program: str) -> list[str]:
    return [sys.executable, "-c", program]


class Probe:
    """Stands in for the real probe and counts how often it is asked."""

    def __init__(self, answer: dict[str, Measurement]) -> None:
        self.answer = answer
        self.calls = 0

    def __call__(self, device: str, thread_counts: Sequence[int]) -> dict[str, Measurement]:
        self.calls += 1
        return self.answer


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Probe:
    """A probe without children, an empty cache, and no variables that steer either."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    for name in ("OMP_NUM_THREADS", "LOCAL_WORLD_SIZE", "ONEDNN_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(host, "_measured", {})
    probe = Probe(ONLY_FLOAT32)
    monkeypatch.setattr(host, "try_precisions", probe)
    return probe


@pytest.fixture
def torch_settings() -> Iterator[None]:
    """Put back what set_up() sets for the whole process."""
    threads, matmul = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(matmul)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a new process began: only the file is left."""
    monkeypatch.setattr(host, "_measured", {})


# --- the probe -----------------------------------------------------------------------------------


def test_a_child_that_dies_of_a_signal_is_named_and_never_chosen() -> None:
    found = precision.measure({"float32": child(SURVIVES), "bfloat16": child(DIES)}, timeout=20)
    assert found["bfloat16"] == Measurement(problem="died: SIGILL")
    assert precision.choose_precision(found) == ("float32", "bfloat16 died: SIGILL")


def test_the_faster_thread_count_is_kept_for_each_width() -> None:
    found = precision.measure({"float32": child(SURVIVES)}, timeout=20)
    assert found["float32"] == Measurement((Speed(128, 2, 0.3), Speed(512, 1, 0.2)))


def test_a_hung_child_is_given_up_and_ended() -> None:
    started = time.monotonic()
    found = precision.measure({"bfloat16": child(HANGS), "float32": child(SURVIVES)}, timeout=1.5)
    assert found["bfloat16"].problem == "timed out after 1.5 s"
    assert len(found["float32"].speeds) == 2
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (child(RAISES), "failed: RuntimeError: no kernel for this"),
        (child(SAYS_NOTHING), "failed: the child reported nothing"),
        (child("import sys; sys.exit(3)"), "failed: exit code 3"),
        (["/no/such/python"], "could not start: "),
    ],
)
def test_any_other_failure_of_a_child_is_a_reason(command: list[str], problem: str) -> None:
    found = precision.measure({"bfloat16": command}, timeout=20)
    assert found["bfloat16"].speeds == ()
    assert str(found["bfloat16"].problem).startswith(problem)


@pytest.mark.parametrize(
    ("float32", "bfloat16", "float16", "choice", "reason"),
    [
        (1.0, 1.19, None, "float32", "bfloat16 is only 1.19 times as fast; float16 died"),
        (1.0, 1.2, None, "bfloat16", "bfloat16 is 1.2 times as fast as float32"),
        (1.0, None, None, "float32", "bfloat16 died; float16 died"),
        (8.0, 60.0, 65.0, "bfloat16", "bfloat16 is 7.5 times as fast as float32"),
        (8.0, 4.0, 40.0, "float16", "float16 is 5 times as fast as float32"),
        (None, 2.0, None, "bfloat16", "bfloat16 is used because float32 failed"),
        (None, None, None, "float32", "every precision failed the probe; float32 is the safest"),
    ],
)
def test_float32_is_chosen_unless_another_is_clearly_faster(
    float32: float | None, bfloat16: float | None, float16: float | None, choice: str, reason: str
) -> None:
    speeds = {"float32": float32, "bfloat16": bfloat16, "float16": float16}
    measured = {
        name: Measurement(problem="died") if speed is None else fast(speed)
        for name, speed in speeds.items()
    }
    assert precision.choose_precision(measured) == (choice, reason)


@pytest.mark.parametrize(
    ("width", "choice"),
    [
        *((32, "float32"), (128, "float32"), (255, "float32"), (256, "bfloat16")),
        *((1600, "bfloat16"), (None, "bfloat16")),
    ],
)
def test_the_speed_at_the_width_of_the_model_decides(width: int | None, choice: str) -> None:
    measured = {
        "float32": Measurement((Speed(128, 1, 0.2), Speed(256, 2, 0.2))),
        "bfloat16": Measurement((Speed(128, 1, 0.18), Speed(256, 1, 0.6))),
    }
    assert precision.choose_precision(measured, width)[0] == choice


def test_float16_is_tried_only_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    def everyone_survives(commands: dict[str, list[str]], _: float) -> dict[str, Measurement]:
        return dict.fromkeys(commands, fast(1.0, 2))

    monkeypatch.setattr(precision, "measure", everyone_survives)
    assert precision.try_precisions("cuda", (2,))["float16"] == fast(1.0, 2)
    problem = precision.try_precisions("cpu", (2,))["float16"].problem
    assert problem == "not tried: its loss scaling needs cuda"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory that would upset a child, if it looked there."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "json.py").write_text("raise SystemExit('imported from the working directory')")
    return folder


@pytest.fixture(scope="module")
def real(hostile: Path) -> Machine:
    """This machine, truly probed, amid variables that would upset a child too."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(hostile)
        monkeypatch.setenv("GLASSFORMER_CACHE", str(hostile / "cache"))
        monkeypatch.setenv("PYTHONWARNINGS", "error")
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setattr(host, "_measured", {})
        return machine()


def test_the_real_probe_chooses_a_precision_that_survived(real: Machine) -> None:
    assert [speed.width for speed in real.probe["float32"].speeds] == [*WIDTHS], real.probe
    best = real.probe[real.precision].at(None)
    assert best is not None
    assert best.tflops > 0
    assert real.threads == best.threads


def test_a_machine_is_plain_json(real: Machine) -> None:
    plain = json.loads(json.dumps(asdict(real)))
    assert plain["precision"] == real.precision
    speeds = real.probe["float32"].speeds
    assert plain["probe"]["float32"]["speeds"] == [asdict(each) for each in speeds]


def test_a_known_machine_starts_no_child(
    real: Machine, hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a child was started")

    forget(monkeypatch)
    monkeypatch.setenv("GLASSFORMER_CACHE", str(hostile / "cache"))
    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert machine() == real


# --- the cache -----------------------------------------------------------------------------------


def test_the_probe_runs_once_and_again_on_refresh(
    fake: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine()
    forget(monkeypatch)
    assert machine() == first
    assert fake.calls == 1
    machine(refresh=True)
    assert fake.calls == 2


def test_another_torch_is_measured_anew(fake: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    machine()
    monkeypatch.setattr(torch, "__version__", "99.0")
    assert machine().torch == "99.0"
    assert fake.calls == 2


def test_another_onednn_limit_is_measured_anew(
    fake: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    machine()
    assert fake.calls == 2


@pytest.mark.parametrize(
    "damage",
    [b"", b"\xff\x00", b"{", b"[]", b"{}", b'{"measurements": 3}', b'{"measurements": {}}'],
)
def test_a_damaged_cache_is_measured_over(
    fake: Probe, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    first = machine()
    (file,) = Path(str(cache_dir())).glob("probe-*.json")
    file.write_bytes(damage)
    for _ in range(2):
        forget(monkeypatch)
        assert machine() == first
    assert fake.calls == 2


def test_without_a_writable_cache_each_process_measures_once(
    fake: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "file" / "cache"))
    assert machine() == machine()
    assert fake.calls == 1


def test_a_probe_in_which_float32_failed_is_not_kept_on_disk(
    fake: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.answer = dict.fromkeys(precision.PRECISIONS, Measurement(problem="timed out after 60 s"))
    assert machine().precision == "float32"
    forget(monkeypatch)
    machine()
    assert fake.calls == 2


def test_ranks_that_start_together_probe_once(fake: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(device: str, thread_counts: Sequence[int]) -> dict[str, Measurement]:
        time.sleep(0.3)
        return fake(device, thread_counts)

    monkeypatch.setattr(host, "try_precisions", slowly)
    ranks = [threading.Thread(target=machine) for _ in range(3)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert fake.calls == 1


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLASSFORMER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_dir() == Path("/somewhere/glassformer")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_dir() == Path.home() / ".cache/glassformer"
    monkeypatch.setenv("GLASSFORMER_CACHE", "/mine")
    assert cache_dir() == Path("/mine")


# --- set_up --------------------------------------------------------------------------------------


def test_prepare_keeps_float32_exact_on_cpu(fake: Probe, torch_settings: None) -> None:
    torch.set_float32_matmul_precision("medium")
    chosen = set_up(threads=1, device="cpu")
    assert (chosen.precision, chosen.threads) == ("float32", 1)
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_num_threads() == 1


def test_a_precision_that_would_kill_the_process_is_refused(fake: Probe) -> None:
    with pytest.raises(GlassformerError, match=r"bfloat16 .*died: SIGILL.* Use precision float32"):
        set_up(precision="bfloat16", device="cpu")


def test_precision_and_threads_suit_the_width_of_the_model(
    fake: Probe, torch_settings: None
) -> None:
    fake.answer = ONLY_FLOAT32 | {
        "float32": Measurement((Speed(128, 2, 0.2), Speed(256, 2, 0.2))),
        "bfloat16": Measurement((Speed(128, 2, 0.18), Speed(256, 1, 0.6))),
    }
    assert set_up(device="cpu", width=128) == host.Setup("cpu", "float32", 2)
    assert set_up(device="cpu", width=384) == host.Setup("cpu", "bfloat16", 1)
    assert set_up(device="cpu", width=384, precision="float32").precision == "float32"
    assert fake.calls == 1
    stdout, _ = run_doctor()
    assert "float32      0.2 / 0.2 TFLOP/s" in stdout
    assert "chosen       float32: bfloat16 is 1.11 times slower" in stdout
    assert "from 256     bfloat16: bfloat16 is 3 times as fast as float32" in stdout


def test_a_run_that_says_everything_is_not_probed(fake: Probe, torch_settings: None) -> None:
    chosen = set_up(threads=1, precision="float32", device="cpu")
    assert (chosen.device, chosen.precision, chosen.threads) == ("cpu", "float32", 1)
    assert fake.calls == 0


def test_processes_of_one_node_share_its_cores(
    fake: Probe, torch_settings: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set_up(device="cpu").threads == 2
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert set_up(device="cpu").threads == 1


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"precision": "float8"}])
def test_a_setting_that_means_nothing_is_wrong_usage(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        set_up(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wish", ["tpu", "cpu:3", "cuda:99"])
def test_a_device_that_is_not_here_names_those_that_are(wish: str) -> None:
    with pytest.raises(
        GlassformerError, match=rf"device {wish} is not available. Choose one of: .*cpu"
    ):
        pick_device(wish)


# --- doctor --------------------------------------------------------------------------------------


def run_doctor(*arguments: str) -> tuple[str, str]:
    app = typer.Typer()
    app.command()(doctor_verb.doctor)
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout, result.stderr


def test_doctor_says_what_was_found_and_what_is_chosen(fake: Probe) -> None:
    stdout, stderr = run_doctor()
    assert "float32      0.3 TFLOP/s" in stdout
    assert "bfloat16     died: SIGILL" in stdout
    assert "chosen       float32: bfloat16 died: SIGILL" in stdout
    assert "Measuring" in stderr


def test_doctor_json_is_one_object_on_stdout(fake: Probe) -> None:
    stdout, _ = run_doctor("--json")
    found = json.loads(stdout)
    assert found["precision"] == "float32"
    assert found["probe"]["bfloat16"]["problem"] == "died: SIGILL"
    assert found["extras"].keys() == {"hub", "wandb", "serve", "onnx", "ctranslate2", "corpus"}


@pytest.mark.parametrize(
    ("cores", "shown"), [(1.94, "1.9 of 2 cores"), (9.0, "2.0 of 2 cores"), (0.3, ""), (None, "")]
)
def test_doctor_says_when_other_programs_keep_the_machine_busy(
    fake: Probe, monkeypatch: pytest.MonkeyPatch, cores: float | None, shown: str
) -> None:
    monkeypatch.setattr(facts, "usable_cores", lambda *_: 2)
    monkeypatch.setattr(load, "busy_cores", lambda: cores)
    stdout, _ = run_doctor()
    line = f"  busy         other programs use {shown}; training will be slower\n"
    assert (line in stdout) == ("busy" in stdout) == bool(shown)
    stdout, _ = run_doctor("--json")
    assert json.loads(stdout)["busy_cores"] == cores


def test_doctor_refresh_measures_again(fake: Probe) -> None:
    run_doctor()
    run_doctor()
    assert fake.calls == 1
    run_doctor("--refresh")
    assert fake.calls == 2


def test_doctor_gives_the_command_for_a_missing_extra(
    fake: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_verb, "EXTRAS", {"hub": ("no-such-package",)})
    stdout, _ = run_doctor()
    command = f"{sys.executable} -m pip install no-such-package"
    assert f"no-such-package missing. To install: {command}" in stdout


def test_importing_the_runtime_does_not_import_torch() -> None:
    program = (
        "import sys, glassformer.machine, glassformer.cli.machine; print('torch' in sys.modules)"
    )
    run = subprocess.run(child(program), capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
