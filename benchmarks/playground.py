"""The page of `playground`: steps a second of the model that learns in it, on one core, in node.

The page's text and shape (3 layers × 48, context 64), for 1, 2 and 4 sequences a step. The time is
that of the processor, so that other programs do not count, and the figure the median of five runs.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import describe
from glassformer.inspect.page import part
from glassformer.inspect.playground import playground

SCRIPTS = ("live/tensors.js", "live/attention.js", "playground/learning.js", "playground/text.js")
RUN = """
import { readFileSync } from "node:fs";
const { shape, text } = JSON.parse(readFileSync(0, "utf8")), alphabet = alphabetOf(text);
const { training } = splitText(alphabet.read(text).ids), speeds = {};
for (const count of [1, 2, 4]) {
  const model = makeLearner({ ...shape, vocab_size: alphabet.size });
  const random = makeRandom(1), runs = [];
  for (let run = 0; run < 6; run += 1) {
    const start = process.cpuUsage().user;
    for (let step = 0; step < 40; step += 1) {
      const { ids, next, length } = randomBatch(training, count, shape.context_length, random);
      model.forward(ids, next, length);
      model.backward();
      model.update(0.003);
    }
    if (run) runs.push(40e6 / (process.cpuUsage().user - start)); // the first one compiles
  }
  speeds[count] = runs.sort((a, b) => a - b)[2];
}
console.log(JSON.stringify({ speeds, node: process.version }));
"""


def main() -> None:
    data = re.search(r'id="data">(.*?)</script>', playground(), re.DOTALL)
    assert data
    with TemporaryDirectory() as folder:
        script = Path(folder) / "run.mjs"
        script.write_text("\n".join([*map(part, SCRIPTS), RUN]), encoding="utf-8")
        one_core = ("taskset", "-c", "0") if shutil.which("taskset") else ()
        done = subprocess.run(
            [*one_core, "node", str(script)],
            input=data[1],
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
    result = json.loads(done.stdout)
    print(f"{describe()}, node {result['node']}")
    for count, speed in result["speeds"].items():
        print(f"{count} sequences a step: {speed:.1f} steps/s")


if __name__ == "__main__":
    main()
