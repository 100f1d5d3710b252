"""Which operators of PyTorch a profile has seen: how much the host does, where kernels are short."""

# Operators that launch nothing.
VIEWS = set(
    "alias as_strided as_strided_ col_indices contiguous crow_indices detach empty empty_like empty_strided expand"
    " expand_as is_nonzero lift_fresh narrow new_empty new_empty_strided permute reshape resize_ resolve_conj"
    " resolve_neg select slice split squeeze t to transpose unbind unsqueeze values view view_as".split()
)


def operators(profiled):
    """The names of the operators that launch something, as often as they were called."""
    names = [event.name.split("::")[1] for event in profiled.events() if event.name.startswith(("aten::", "rtopk::"))]
    return [name for name in names if name not in VIEWS]
