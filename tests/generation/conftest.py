import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Such small tensors are slower in two threads, and much slower beside other programs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
