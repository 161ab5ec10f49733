"""Four ranks run the same all-reduces, each in a different order."""

import random
from concurrent.futures import ThreadPoolExecutor

import dfccl
import numpy


def body(context: dfccl.Context) -> None:
    sums = [context.register_all_reduce(id, 1 << id, "float32") for id in range(4, 12)]
    random.Random(context.rank).shuffle(sums)
    arrays = [numpy.full(each.count, context.rank + 1, "float32") for each in sums]
    for run in [each.run(array) for each, array in zip(sums, arrays)]:
        run.wait()
    assert all((array == 10).all() for array in arrays)
    print(f"rank {context.rank}: right")


ranks = dfccl.contexts(4)
with ThreadPoolExecutor(len(ranks)) as threads:
    list(threads.map(body, ranks))  # raises the error of a rank
for context in ranks:
    context.close()
