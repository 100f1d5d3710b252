"""What a peer is, and the check of its results."""

# Data with NaN: peers differ in where NaN belongs, so their results cannot be compared by value.
WITH_NAN = ("one_percent_nan",)


class Missing(Exception):
    """The peer is not here. The text says why."""


class Peer:
    """Another library's top-k of the rows of a torch CUDA tensor. Subclasses set these members."""

    name = ""
    install = ""  # what a user does to have it measured
    promises = ""  # about its results: exact or not, their order, ties
    dtypes = ()
    stops_early = False  # whether bound() takes max_iter

    def find(self, dtypes):
        """Loads it for these element types, and compiles what has to be compiled. Returns its version. Raises Missing
        if it is not here; any other exception means that it does not work here."""
        raise NotImplementedError

    def fits(self, rows, cols, k):
        """Whether it can do this shape; its element types are in `dtypes`."""
        return True

    def bound(self, matrix, k, max_iter=0):
        """A function without arguments. It selects the k largest elements of each row of a contiguous matrix, in order
        with what torch's current stream holds, and returns (values, indices), each with k columns, as torch tensors.
        max_iter counts passes as rtopk's does; 0: exact."""
        raise NotImplementedError

    def release(self):
        """Gives memory back that it keeps for later calls."""

    def can_do(self, cell):
        """Whether it can do what the cell asks of rtopk. Results in order are not compared: most peers have none."""
        plain = cell.form == "pairs" and cell.direction == "largest" and cell.order == "unsorted"
        in_place = not cell.row_stride and not cell.offset
        exact = not cell.stops_early and cell.data not in WITH_NAN
        return plain and in_place and exact and cell.dtype in self.dtypes and self.fits(cell.rows, cell.cols, cell.k)


def wrong_rows(torch, matrix, values, indices, exact=True):
    """How many rows of a result are wrong: an index out of range or twice, a value that is not what its index leads to
    or, if the result should be exact, other values than those of torch.topk."""
    rows, k = values.shape
    if indices.shape != values.shape or rows != len(matrix) or values.dtype != matrix.dtype:
        raise ValueError(f"a result of {values.dtype} {tuple(values.shape)} and {tuple(indices.shape)}")
    indices = indices.to(torch.int64)
    inside = indices.clamp(0, matrix.shape[1] - 1)
    wrong = (indices != inside).any(dim=1)
    wrong |= (matrix.gather(1, inside) != values).any(dim=1)
    wrong |= (indices.sort(dim=1).values.diff(dim=1) == 0).any(dim=1)
    if exact:
        best = torch.topk(matrix, k, dim=1).values
        wrong |= (values.sort(dim=1, descending=True).values != best).any(dim=1)
    return int(wrong.sum())
