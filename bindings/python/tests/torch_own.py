"""Runs torch's own tests of a backend, which its wheel has, under the name of Gloo.

    python torch_own.py [-v] [TEST...]

The tests need expecttest (pip). BACKEND_OF_GLOO=gloo runs them on Gloo itself, for comparison.
BACKEND=dfccl runs them under the name dfccl, which fewer of the tests support. WORLD_SIZE is the
number of ranks (2). The tests take minutes, so they are not part of the lane. Tests that the events
of a profile are asynchronous are left out, since only code in C++ can end an event in another
thread.
"""

# ruff: noqa: E402  the environment must be set before torch is imported
import atexit
import os
import shutil
import tempfile

os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("BACKEND", "gloo")
os.environ["TEMP_DIR"] = folder = tempfile.mkdtemp()
owner = os.getpid()
atexit.register(
    # A forked rank leaves the folder to its parent.
    lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None
)
for name in ("barrier", "test_dir", "init_dir"):
    os.makedirs(os.path.join(folder, name))

import dfccl.torch.job
import torch
import torch.distributed as dist

ours = os.environ.get("BACKEND_OF_GLOO", "dfccl") == "dfccl"
if ours and os.environ["BACKEND"] == "gloo":
    dist.Backend._ensure_backend_registered("gloo")
    dist.Backend._plugins["GLOO"] = dist.Backend._BackendPlugin(dfccl.torch.job.create, True)

from torch.testing._internal.common_distributed import DistTestCases
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.distributed import distributed_test

for feature in ("ddp", "subgroup"):
    DistTestCases.backend_feature[feature].add("dfccl")
if ours:
    distributed_test.PROFILING_SUPPORTED_BACKENDS = []
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS = []


class Own(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    @property
    def init_method(self):
        return f"file://{self.file_name}"


if __name__ == "__main__":
    run_tests()
