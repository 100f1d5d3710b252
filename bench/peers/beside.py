"""The peers beside one selection: their results are checked, and what is found is kept for the report."""

from dataclasses import dataclass, field

from .peer import wrong_rows

PREFIX = "peer:"  # of the names of their times


@dataclass
class Beside:
    """The peers to time beside a selection, and what is known of them besides their times, by name."""

    peers: tuple = ()
    max_iters: tuple = ()  # for peers that can stop early
    wrong_rows: dict = field(default_factory=dict)
    errors: dict = field(default_factory=dict)
    indices: dict = field(default_factory=dict)  # of early-stopped results

    def checked_functions(self, torch, cell, matrix, sleep, recover):
        """The peers that can do the cell, as functions by "peer:NAME", after a check of their results. `sleep` keeps
        the GPU busy for a moment; `recover` is called after a peer's error, with its name and the error."""
        wanted = [(peer, n) for peer in self.peers if peer.can_do(cell) for n in self._max_iters_of(peer)]
        kept = matrix.clone() if wanted else None
        functions = {}
        for peer, max_iter in wanted:
            name = f"{peer.name} max_iter={max_iter}" if max_iter else peer.name
            try:
                function = peer.bound(matrix, cell.k, max_iter)
                self._check(torch, matrix, kept, name, function, sleep, max_iter)
                functions[PREFIX + name] = function
            except Exception as error:
                self.failed(name, error)
                recover(name, error)
                matrix.copy_(kept)
        return functions

    def failed(self, name, error):
        self.errors[name] = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])

    def release(self):
        for peer in self.peers:
            peer.release()

    def _check(self, torch, matrix, kept, name, function, sleep, max_iter):
        # Were the peer not in order with torch's stream, it would read zeros.
        matrix.zero_()
        sleep()
        matrix.copy_(kept)
        values, indices = function()
        self.wrong_rows[name] = wrong_rows(torch, matrix, values, indices, exact=max_iter == 0)
        if not torch.equal(matrix, kept):
            raise ValueError("it changes its input")
        if max_iter:
            self.indices[name] = indices

    def _max_iters_of(self, peer):
        return (0, *self.max_iters) if peer.stops_early else (0,)
