"""Modules whose optional package is not installed are left out of the doctests; their own tests say what is missing."""

from importlib.util import find_spec

collect_ignore = []
if find_spec("triton") is None:
    collect_ignore += ["src/pathveil/model/kernels/cuda.py", "src/pathveil/model/kernels/programs.py"]
    collect_ignore += ["src/pathveil/training/graphed.py", "src/pathveil/training/programs.py"]
    collect_ignore += ["tests/model/kernels/cuda_checks.py", "tests/training/graphed_checks.py"]
    collect_ignore += ["tests/model/kernels/norm_checks.py", "tests/training/dp_checks.py"]
if find_spec("nvflare") is None:
    collect_ignore += [
        f"src/pathveil/federation/flare/{name}.py" for name in ("controller", "duplicate_guard", "executor", "launcher")
    ]
