"""What tests of recorded graphs share: torch.compile as one of the ways to record, and what a graph gives."""

import torch


def compiled(module, x):
    torch.compiler.reset()
    run = torch.compile(module, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        run(x)
    return run


def results(run, x):
    """The output, and the gradient with respect to the input."""
    x = x.clone().requires_grad_()
    output = run(x)
    output.square().sum().backward()
    return output.detach(), x.grad
