"""Other libraries' top-k, timed beside rtopk where they are installed. None of them is shipped here.

PEERS is the one list: bench/compare_gpu.py and paper/page/kernels.py both take it from here. A further peer is a file
with a class like those here, and an entry below.
"""

from .authors_kernel import AuthorsKernel
from .beside import PREFIX, Beside
from .cub_rows import CubRows
from .cupy_rows import CupyRows
from .flashinfer_top_k import FlashInferTopK
from .found import Found, not_looked_for
from .jax_top_k import JaxTopK
from .peer import Missing, Peer, wrong_rows
from .quack_topk import QuackTopK

PEERS = (AuthorsKernel(), FlashInferTopK(), QuackTopK(), CubRows(), JaxTopK(), CupyRows())
NAMES = tuple(peer.name for peer in PEERS)

__all__ = ["NAMES", "PEERS", "PREFIX", "Beside", "Found", "Missing", "Peer", "named", "not_looked_for", "wrong_rows"]


def named(names):
    """The peers with these names, in the order of the list; "all" means all of them."""
    return PEERS if "all" in names else tuple(peer for peer in PEERS if peer.name in names)
