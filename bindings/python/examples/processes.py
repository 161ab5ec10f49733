"""Two ranks, one process each. Under torchrun or mpirun, Context.from_environment() needs no id,
rank and size."""

import multiprocessing

import dfccl
import numpy


def body(rank: int, size: int, id: bytes) -> None:
    with dfccl.Context(rank, size, id) as context:
        gathered = numpy.zeros(2 * size, "int64")
        mine = numpy.array([rank, rank * rank])
        context.register_all_gather(1, 2, "int64", name="squares").run(mine, gathered).wait(
            timeout=30
        )
        assert gathered.tolist() == [0, 0, 1, 1]
        print(f"rank {rank}: right")


if __name__ == "__main__":
    id = dfccl.unique_id()
    children = [
        multiprocessing.get_context("spawn").Process(target=body, args=(rank, 2, id))
        for rank in range(2)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    raise SystemExit(any(child.exitcode != 0 for child in children))
