from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread_and_the_same_numbers_every_time() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors: a second thread only waits
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
