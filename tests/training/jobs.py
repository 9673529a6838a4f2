"""What workers are given to do in tests: functions of a module that another process can import."""

import os
import signal

import numpy as np

from pathveil.vocabulary.encoded import EncodedCorpus


def die(corpus: EncodedCorpus) -> None:
    """The end of the process, as when memory runs out."""
    os._exit(9)


def hears_control_c(corpus: EncodedCorpus | None = None) -> bool:
    """Whether ctrl-C can reach this process; what it blocks, it has blocked since it was started."""
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def one_report() -> EncodedCorpus:
    return EncodedCorpus(
        ids=np.array([2], np.int32),
        offsets=np.array([0, 1]),
        cases=np.array([0]),
        registries=np.array([0]),
        registry_names=("R1",),
        labels={},
        classes={},
        vocabulary_size=3,
    )
