"""Token batches: what they take, and what they refuse."""

import numpy as np
import pytest
import torch

from pathveil.model import TokenBatch


def test_arrays_tensors_and_lists_are_taken():
    expected = torch.tensor([4, 5, 6])
    for ids in ([4, 5, 6], np.array([4, 5, 6], np.int32), np.array([4, 5, 6], np.uint16), expected):
        batch = TokenBatch(ids=ids, offsets=np.array([0, 1, 3]))
        assert torch.equal(batch.ids.long(), expected) and batch.offsets.tolist() == [0, 1, 3]
    assert batch.to("cpu").documents == 2


def test_read_only_arrays_are_taken_without_a_warning(recwarn):
    ids = np.array([4, 5, 6], np.int32)
    ids.flags.writeable = False
    assert TokenBatch(ids=ids, offsets=[0, 3]).ids.tolist() == [4, 5, 6]
    assert not recwarn.list


def test_no_documents_and_empty_documents():
    assert TokenBatch.of([]).documents == 0
    assert TokenBatch.of([[], []]).offsets.tolist() == [0, 0, 0]
    assert TokenBatch(ids=[], offsets=[0]).ids.dtype == torch.int64


@pytest.mark.parametrize("offsets", [[], [1, 3], [0, 2], [0, 4], [0, 2, 1, 3]])
def test_offsets_must_rise_to_the_number_of_ids(offsets):
    with pytest.raises(ValueError, match="offsets must rise from 0 to the number of ids, 3"):
        TokenBatch(ids=[1, 2, 3], offsets=offsets)


def test_ids_must_be_whole_numbers_along_one_axis():
    for ids in ([1.5, 2.0], [[1, 2]]):
        with pytest.raises(ValueError, match="whole numbers along one axis"):
            TokenBatch(ids=ids, offsets=[0, 2])
