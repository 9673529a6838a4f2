"""A step on a GPU that is recorded once and said again: hundreds of small launches from Python would take all the time.

cuBLAS takes a workspace for every stream that it works on and keeps it for good, and with it all of the block of memory
that it was cut from. So every step of a process is rehearsed and recorded on one stream, whose workspace comes first.
"""

from collections.abc import Callable
from functools import lru_cache

import torch

REHEARSALS = 3  # in which programs are compiled and libraries make their plans


def record(step: Callable[[], None], device: torch.device) -> torch.cuda.CUDAGraph:
    """The step as a CUDA graph, after ``REHEARSALS`` that are done in earnest."""
    stream = _recording_stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(REHEARSALS):
            step()
    torch.cuda.current_stream(device).wait_stream(stream)
    torch.cuda.empty_cache()  # what rehearsals took, of which a graph can use nothing: as much as a step takes
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    return graph


@lru_cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        torch.zeros(2, 2, device=device) @ torch.zeros(2, 2, device=device)
    return stream
