"""The table of `make clients`, docs/clients.md."""

from __future__ import annotations

from dataclasses import dataclass, field

TEXT = """# Other people's code on rtopk

Made by `make clients`, with the packages of requirements-clients.txt. Every package runs with `rtopk.accelerate()` on
and off, from the same seeds.

- *Their tests* are those that a package publishes. The outcome of each test is compared.
- *Our client* is a program that uses the package (tests/clients). Its results and gradients are compared; the last
  column says how many are the same to the last bit. The others are within 1e-4 of the largest element (f32; 3e-2 in
  bf16), since `sorted=False` leaves the order of sums open, or they differ by ties: of equal values, others were
  selected. All of them are to the last bit what a stable sort in place of rtopk leads to.
- *By rtopk* counts the calls of torch.topk that rtopk did with accelerate() on. Each call is checked by itself: the
  values are the best, they stand at the indices, and no index comes twice.

{made_with}

| package | version | what ran | different | by rtopk | same bits |
|---|---|---|---|---|---|
{rows}
"""


@dataclass
class Row:
    """A line of the table: one client's tests, or our program for it."""

    client: str
    version: str
    what: str
    passed: int = 0
    other: str = ""  # outcomes that are the same both ways and not "passed"
    different: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)
    calls: int = 0
    routed: int = 0
    agreement: str = ""
    problem: str = ""  # why there is nothing, or not everything, to compare
    note: str = ""

    def described(self) -> str:
        count = self.passed + len(self.different) + len(self.unsteady)
        text = f"{self.what}: {count}" + (" checks" if self.what == "our client" else "")
        if self.other:
            text += f" passed, {self.other} both ways"
        if self.note:
            text += f" ({self.note})"
        return "; ".join(part for part in (text if count else "", self.problem) if part)

    def line(self) -> str:
        different = f"{len(self.different)}" + (f" ({len(self.unsteady)} unsteady)" if self.unsteady else "")
        cells = [
            self.client,
            self.version,
            self.described(),
            different,
            f"{self.routed} of {self.calls}",
            self.agreement,
        ]
        return f"| {' | '.join(cells)} |"


def table(rows: list[Row], made_with: str) -> str:
    text = TEXT.format(made_with=made_with, rows="\n".join(row.line() for row in rows))
    for title, kind in (("Different", "different"), ("Unsteady: the outcome changes from run to run", "unsteady")):
        found = [f"- {row.client}: {entry}" for row in rows for entry in getattr(row, kind)]
        if found:
            text += f"\n## {title}\n\n" + "\n".join(found) + "\n"
    return text
