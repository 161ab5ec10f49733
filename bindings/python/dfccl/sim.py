"""python -m dfccl.sim: runs dfccl-sim."""

from .tools import sim

if __name__ == "__main__":
    sim()
