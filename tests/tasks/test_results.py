import subprocess
import sys


def test_scoring_imports_neither_lightning_nor_scikit_learn():
    program = (
        "import sys, glassformer.tasks.labels.baseline, glassformer.tasks.tag.scores;"
        "print({'lightning_fabric', 'sklearn', 'scipy'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "set()\n", found.stderr
