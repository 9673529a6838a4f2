"""The CUDA kernel's checks (``cuda_checks.py``, ``norm_checks.py``) in a process of their own: through Triton's
interpreter, which must be asked for before Triton is imported, and on a GPU where there is one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

CHECKS = [Path(__file__).with_name(name) for name in ("cuda_checks.py", "norm_checks.py")]


@pytest.mark.parametrize("where", ["interpreter", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_the_kernel_equals_the_reference(where):
    pytest.importorskip("triton", reason="needs Triton: pip install 'pathveil[triton]'")
    if where == "gpu" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    environment = os.environ | {"TRITON_INTERPRET": "1" if where == "interpreter" else "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *map(str, CHECKS)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " passed" in run.stdout and "skipped" not in run.stdout
