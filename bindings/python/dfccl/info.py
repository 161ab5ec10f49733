"""python -m dfccl.info: runs dfccl-info."""

from .tools import info

if __name__ == "__main__":
    info()
