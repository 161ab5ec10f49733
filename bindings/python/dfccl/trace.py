"""python -m dfccl.trace: runs dfccl-trace."""

from .tools import trace

if __name__ == "__main__":
    trace()
