"""All that rtopk uses of torch beyond its documented interface.

Each name in NAMES is looked up once, at import. If this torch lacks one, the public way is taken instead: results are
the same, small calls take longer. No other module of rtopk uses a private name of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakValueDictionary

import torch
from torch.autograd import forward_ad
from torch.overrides import has_torch_function_unary

# What a selection needs to skip the dispatcher: the keys and kernels to enter past autograd, and the questions whether
# anything else wants to see the call.
_SHORTCUTS = (
    "_C.DispatchKey.PrivateUse3",
    "_C.DispatchKey.AutogradPrivateUse3",
    "_C.DispatchKey.PythonDispatcher",
    "_C.DispatchKeySet",
    "_C._are_functorch_transforms_active",
    "_C._dispatch_call_boxed",
    "_C._dispatch_find_schema_or_throw",
    "_C._dispatch_tls_is_dispatch_key_included",
    "_C._is_torch_function_mode_enabled",
    "_C._is_tracing",
    "_C._len_torch_dispatch_stack",
    "autograd.forward_ad._current_level",
    "library.get_kernel",
)
# What a kernel in Python needs to call the kernels below it.
_REDISPATCH = ("_C._after_ADInplaceOrView_keyset", "_ops.OpOverload.redispatch")

_GROUP_OF_NAME = "distributed.distributed_c10d._resolve_process_group"

NAMES = (*_SHORTCUTS, *_REDISPATCH, _GROUP_OF_NAME, "_check")


def _find(name: str):
    thing = torch
    for part in name.split("."):
        thing = getattr(thing, part, None)
    return thing


_found = {name: _find(name) for name in NAMES}


def _has(*names: str) -> bool:
    return all(_found[name] is not None for name in names)


HAS_SHORTCUTS = _has(*_SHORTCUTS)

#: The types of tensors that may take a shortcut. Without shortcuts there are none.
PLAIN_TYPES = frozenset((torch.Tensor, torch.nn.Parameter) if HAS_SHORTCUTS else ())


# ---- Who else wants to see a call ----
#
# Functions without arguments are the quickest to ask.

is_compiling = torch.compiler.is_dynamo_compiling  # public, and the only question that torch.compile can answer
has_function_mode = _found["_C._is_torch_function_mode_enabled"]
_dispatch_modes = _found["_C._len_torch_dispatch_stack"]
_has_transform = _found["_C._are_functorch_transforms_active"]
_is_tracing = _found["_C._is_tracing"]


def is_watched(input: torch.Tensor) -> bool:
    """Whether the dispatcher has others to show a call to than autograd and a kernel: a mode, a transform, a tracer.
    Only asked where shortcuts exist."""
    return _dispatch_modes() or _has_transform() or _is_tracing() or input.is_neg()


def is_unwatched(input: torch.Tensor) -> bool:
    """Whether a call with this tensor is known to be executed and nothing else: not recorded, transformed or
    overridden."""
    return not is_compiling() and type(input) in PLAIN_TYPES and not has_function_mode() and not is_watched(input)


def is_recorded(input: torch.Tensor) -> bool:
    """Whether a call with this tensor is known to be recorded, so that the elements of the tensor cannot be read."""
    if HAS_SHORTCUTS:
        return not is_unwatched(input)
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


if HAS_SHORTCUTS:
    _key_is_included = _found["_C._dispatch_tls_is_dispatch_key_included"]
    _PYTHON_DISPATCHER = _found["_C.DispatchKey.PythonDispatcher"]

    def is_overridden(input: torch.Tensor) -> bool:
        """Whether a subclass or a mode wants a function as a whole. While make_fx records before autograd, it has a
        mode for other purposes: it would call the function again without the mode, and then nothing would tell that it
        records."""
        return not is_compiling() and has_torch_function_unary(input) and not _key_is_included(_PYTHON_DISPATCHER)

else:

    def is_overridden(input: torch.Tensor) -> bool:
        """Whether a subclass or a mode wants a function as a whole."""
        return not is_compiling() and has_torch_function_unary(input)


def constant_under_compile(function: Callable) -> Callable:
    """Tells torch.compile to call the function while it compiles, as torch.compiler.assume_constant_result does. That
    one would import all of torch.compile, which takes seconds."""
    function._dynamo_marked_constant = True
    return function


if _has("_C._are_functorch_transforms_active"):
    _transform_is_active = constant_under_compile(lambda: _has_transform())

    def in_torch_func(*tensors: torch.Tensor) -> bool:
        """Whether a transform of torch.func, such as vmap or grad, is active."""
        return _transform_is_active()

else:

    def in_torch_func(*tensors: torch.Tensor) -> bool:
        """Whether a transform of torch.func, such as vmap or grad, transforms these tensors; or may do so."""
        return is_compiling() or any(torch.func.debug_unwrap(tensor) is not tensor for tensor in tensors)


if _has("autograd.forward_ad._current_level"):

    def in_forward_mode(input: torch.Tensor) -> bool:
        """Whether forward-mode derivatives are being taken."""
        return forward_ad._current_level >= 0

else:

    def in_forward_mode(input: torch.Tensor) -> bool:
        """Whether forward-mode derivatives are being taken of this tensor."""
        return not is_compiling() and forward_ad.unpack_dual(input).tangent is not None


# ---- Ways past the dispatcher ----
#
# The operators have kernels for PrivateUse3, a backend that no tensor has (bindings/torch/operators.cpp). Called by
# that key, an operator is the selection and nothing else. aten::topk has one too: entered at autograd, it is
# torch.topk's own derivative around our selection, in C++, forward and backward and of every order.

if HAS_SHORTCUTS:
    _Keys = _found["_C.DispatchKeySet"]
    SELECTION = _Keys(_found["_C.DispatchKey.PrivateUse3"])
    DERIVATIVE_THEN_SELECTION = _Keys(_found["_C.DispatchKey.AutogradPrivateUse3"]) | SELECTION
    call_boxed = _found["_C._dispatch_call_boxed"]
else:
    SELECTION = DERIVATIVE_THEN_SELECTION = call_boxed = None


def selection_kernel(name: str):
    """The selection of an operator alone, to be called with SELECTION first; None without shortcuts."""
    return _kernel(name, "PrivateUse3")


def derivative_kernel(name: str):
    """The derivative of an operator, to be called with DERIVATIVE_THEN_SELECTION first; None without shortcuts."""
    return _kernel(name, "AutogradPrivateUse3")


def _kernel(name: str, key: str):
    return _found["library.get_kernel"](name, key).call_boxed if HAS_SHORTCUTS else None


def schema(name: str):
    """An operator as `call_boxed` takes it; None without shortcuts."""
    return _found["_C._dispatch_find_schema_or_throw"](name, "") if HAS_SHORTCUTS else None


def redispatch_below_writes(operator) -> Callable | None:
    """A function of a set of keys and the operator's arguments that calls its kernels below ADInplaceOrView; None if
    this torch has no way to do so."""
    if not _has(*_REDISPATCH):
        return None
    below = _found["_C._after_ADInplaceOrView_keyset"]
    return lambda keys, *arguments: operator.redispatch(keys & below, *arguments)


# ---- Process groups ----
#
# Operators get a group by its name. While torch.compile traces, there may be a stand-in in the place of a group.

_seen_groups: WeakValueDictionary = WeakValueDictionary()


@constant_under_compile
def group_name(group) -> str:
    """The name of a process group, for group_of_name()."""
    if _found[_GROUP_OF_NAME] is None:
        _seen_groups[group.group_name] = group
    return group.group_name


def group_of_name(name: str):
    """The process group."""
    return (_found[_GROUP_OF_NAME] or _seen_groups.__getitem__)(name)


# ---- Small things ----


def _check(condition: bool, message: Callable[[], str]) -> None:
    if not condition:
        raise RuntimeError(message())


#: A RuntimeError unless the condition holds. torch's own also tells the compiler what it may assume of a dynamic size.
check: Callable[[bool, Callable[[], str]], None] = _found["_check"] or _check

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def may_have_hooks(module: torch.nn.Module) -> bool:
    """Whether a call of the module may do more than its forward()."""
    return any(getattr(module, name, True) for name in _HOOKS)


_GRADIENT_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def gradient_hooks(tensor: torch.Tensor) -> tuple[list[Callable], list[Callable]]:
    """What register_hook() has given a tensor, and what register_post_accumulate_grad_hook() has. An AttributeError in
    a torch that keeps them elsewhere: hooks that are not seen would be left out silently."""
    return tuple([*(getattr(tensor, name) or {}).values()] for name in _GRADIENT_HOOKS)
