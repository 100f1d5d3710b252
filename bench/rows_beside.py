"""A peer's rows with mapped indices beside rtopk's: their calls, and the rows that either has wrong."""

import torch

import hard_rows
import librtopk

VARIANTS = {"flashinfer": False, "flashinfer_lowest": True}  # whether they take the lowest indices of ties
# On rows of few levels, bfloat16, 256 x 131072, the first reads outside of its memory (version 0.7.2, with
# compute-sanitizer), which ends the process. Hard data is for the other one.
ON_HARD_DATA = {"flashinfer_lowest": True}


class Places:
    """Places in a paged cache, all of whose pages are in the tables."""

    form = "pages"

    def __init__(self, rows, cols, page_size, device):
        pages = -(-cols // page_size)
        self.map = torch.randperm(rows * pages, device=device, dtype=torch.int32).reshape(rows, pages)
        self.options = {"index_kind": librtopk.INDEX_KINDS["pages"], "pages": pages, "page_size": page_size}

    def columns(self, places):
        return hard_rows.columns_of_places(places, self.map, self.options["page_size"])

    def of_peer(self, peer, matrix, lengths, k, lowest):
        return peer.pages(matrix, self.map, lengths, k, self.options["page_size"], lowest)


class Shifted:
    """Indices into rows that lie one behind the other."""

    form = "ragged"

    def __init__(self, rows, cols, _page_size, device):
        self.map = torch.arange(rows, device=device, dtype=torch.int32) * cols
        self.options = {"index_kind": librtopk.INDEX_KINDS["shifted"]}

    def columns(self, indices):
        return hard_rows.columns_of_shifted(indices, self.map)

    def of_peer(self, peer, matrix, lengths, k, lowest):
        return peer.ragged(matrix, self.map, lengths, k, lowest)


class Beside:
    """A call of rtopk, which has run() and `indices`, and the peer's calls for the same. All rows of two runs of each
    are counted. `functions` has the peer's calls, to be timed."""

    def __init__(self, call, mapping, peer, matrix, lengths, k, dtype, variants=VARIANTS):
        self.functions, self.errors, self.takes_cub = {}, {}, []
        expected = hard_rows.lowest_first(matrix, lengths, k)

        def counted(run, indices):
            results = []
            for _ in range(2):
                indices.fill_(hard_rows.OUTSIDE)  # else what is not written could be right from the run before
                run()
                results.append(mapping.columns(indices))
            return hard_rows.counts(matrix, lengths, expected, *results)

        self.counts = {"rtopk": counted(call.run, call.indices)}
        for name, lowest in variants.items() if peer else ():
            try:
                run = mapping.of_peer(peer, matrix, lengths, k, lowest)
                self.counts[name] = counted(run, run())
            except RuntimeError as error:
                self.errors[name] = (str(error).splitlines() or [""])[0]
                continue
            self.functions[name] = run
            if peer.takes_cub(mapping.form, *matrix.shape, dtype, lowest):
                self.takes_cub.append(name)

    def record(self, times, ours):
        """For the JSON. `times` has those of `functions`, and rtopk's by the name `ours`."""
        ratios = {name: times[name] / times[ours] for name in self.functions}
        return ratios | {"counts": self.counts, "package_takes_cub": self.takes_cub, "peer_errors": self.errors}


def ours_is_wrong(counts):
    """rtopk promises the lowest indices of equal values, and so the same set in every call."""
    return any(counts["rtopk"][what] for what in ("wrong", "other_ties", "changed_sets"))
