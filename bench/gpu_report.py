"""The results of compare_gpu.py: the times of a cell, the summary of a set, and the file with both."""

import json
import math
import statistics
import time
from dataclasses import asdict, dataclass, field, fields

from gpu_grids import AGAINST_TORCH, TARGETS, Cell

UNFINISHED = "the run ended in this cell"


@dataclass
class Outcome:
    """Median times of a cell in microseconds, or why there are none."""

    cell: Cell
    times: dict = field(default_factory=dict)  # of floor and rtopk; of torch, baseline and peer:NAME where measured
    plan: str = ""
    error: str = ""
    peer_wrong_rows: dict = field(default_factory=dict)  # by peer
    peer_errors: dict = field(default_factory=dict)  # of peers that failed

    def ratio(self, to):
        return self.times["rtopk"] / self.times[to] if "rtopk" in self.times and to in self.times else None

    def record(self):
        cell = {name: value for name, value in asdict(self.cell).items() if name != "baseline"}
        if self.cell.baseline is not None:
            cell["baseline"] = self.cell.baseline.name
        gigabytes_per_second = None
        if "rtopk" in self.times:
            gigabytes_per_second = round(self.cell.floor_bytes / self.times["rtopk"] / 1e3, 1)
        return (
            cell
            | {
                "microseconds": {name: round(value, 3) for name, value in self.times.items()},
                "ratios": {to: round(self.ratio(to), 4) for to in ("floor", "torch", "baseline") if self.ratio(to)},
                "gigabytes_per_second": gigabytes_per_second,
                "plan": self.plan,
                "error": self.error,
            }
            | self.beside()
        )

    def beside(self):
        """What the JSON says about peers besides their times; nothing where none was asked for."""
        if not self.peer_wrong_rows and not self.peer_errors:
            return {}
        return {"peer_wrong_rows": self.peer_wrong_rows, "peer_errors": self.peer_errors}


def identity(record):
    """The members of a record that identify its cell."""
    return tuple(record.get(part.name, part.default) for part in fields(Cell) if part.name != "baseline")


class Report:
    """All outcomes, and their file. The file is always complete: it names even a cell that ends the process."""

    def __init__(self, path, facts, cells):
        self.path, self.facts, self.cells = path, facts, cells
        self.peers = None  # which of them were measured, where they were asked for
        self.start = time.monotonic()
        self.seconds_before = 0.0
        self.outcomes = {}  # by position in cells
        self._texts = {}

    def resume(self):
        """Reads the outcomes of an earlier run from the file. Returns whether there was such a file."""
        if self.path is None or not self.path.exists():
            return False
        before = json.loads(self.path.read_text())
        records = {identity(record): record for record in before["cells"]}
        for position, cell in enumerate(self.cells):
            record = records.get(identity(asdict(cell)))
            if record is not None:
                peers = [record.get(name, {}) for name in ("peer_wrong_rows", "peer_errors")]
                outcome = Outcome(cell, record["microseconds"], record["plan"], record["error"], *peers)
                self._set(position, outcome)
        self.seconds_before = before["environment"]["seconds"]
        return True

    def begin(self, position):
        self._set(position, Outcome(self.cells[position], error=UNFINISHED))
        self.write()

    def end(self, position, outcome):
        self._set(position, outcome)

    def forget_unfinished(self, position):
        """Removes the cell that was running: the run was interrupted from outside, so the cell did not fail."""
        if position in self.outcomes and self.outcomes[position].error == UNFINISHED:
            del self.outcomes[position], self._texts[position]

    def _set(self, position, outcome):
        self.outcomes[position] = outcome
        self._texts[position] = json.dumps(outcome.record())

    def in_order(self):
        return [self.outcomes[position] for position in sorted(self.outcomes)]

    def summaries(self):
        return summaries_of(self.in_order())

    def failed(self):
        return [outcome for outcome in self.in_order() if outcome.error]

    def write(self, finished=False):
        """`finished`: no cell is left to start, or no time for one."""
        self.facts["seconds"] = round(self.seconds_before + time.monotonic() - self.start, 1)
        self.facts["finished"] = finished
        if self.path is None:
            return
        texts = [self._texts[position] for position in sorted(self._texts)]
        written = self.path.with_name(self.path.name + ".part")
        peers = {} if self.peers is None else {"peers": self.peers}
        written.write_text(as_text({"environment": self.facts, "summary": self.summaries()} | peers, texts))
        written.replace(self.path)


def as_text(head, cells):
    """The JSON of a record, with each cell on a line."""
    cells = ",\n  ".join(cells)
    return f'{json.dumps(head, indent=1).removesuffix("}").rstrip()},\n "cells": [\n  {cells}\n ]\n}}\n'


def geometric_mean(numbers):
    return math.exp(statistics.fmean(math.log(number) for number in numbers))


def percentile(numbers, percent):
    """The smallest of the numbers that so many percent do not exceed."""
    ordered = sorted(numbers)
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]


def summary_of(name, target, outcomes):
    measured = [outcome for outcome in outcomes if outcome.ratio(target.to) is not None]
    failed = sum(bool(outcome.error) for outcome in outcomes)
    line = {"set": name, "what": target.what, "cells": len(measured), "failed": failed, "target": str(target)}
    if not measured:
        return line | {"geometric_mean": None, "ninetieth": None, "worst": None, "worst_cell": None, "met": None}
    worst = max(measured, key=lambda outcome: outcome.ratio(target.to))
    ratios = [outcome.ratio(target.to) for outcome in measured]
    mean, ninetieth = geometric_mean(ratios), percentile(ratios, 90)
    met = target.met(mean, ninetieth, worst.ratio(target.to))
    return line | {
        "geometric_mean": round(mean, 4),
        "ninetieth": round(ninetieth, 4),
        "worst": round(worst.ratio(target.to), 4),
        "worst_cell": worst.cell.name,
        "met": False if failed and met is not None else met,
    }


def summaries_of(outcomes):
    names = dict.fromkeys(outcome.cell.set for outcome in outcomes)
    lines = [summary_of(name, TARGETS[name], [o for o in outcomes if o.cell.set == name]) for name in names]
    with_torch = [outcome for outcome in outcomes if "torch" in outcome.times]
    return lines + ([summary_of("torch", AGAINST_TORCH, with_torch)] if with_torch else [])


def print_table(summaries):
    print(f"\n{'set':<12} {'cells':>5} {'mean':>6} {'90 %':>6} {'worst':>6}  {'at':<40} {'target':<28} met")
    for line in summaries:
        mean, ninetieth, worst = (
            f"{line[name]:6.3f}" if line[name] else f"{'-':>6}" for name in ("geometric_mean", "ninetieth", "worst")
        )
        met = {True: "yes", False: "NO", None: "-"}[line["met"]]
        failed = f" ({line['failed']} failed)" if line["failed"] else ""
        print(f"{line['set']:<12} {line['cells']:>5} {mean} {ninetieth} {worst}  {line['worst_cell'] or '-':<40}"
              f" {line['target']:<28} {met}{failed}")  # fmt: skip


def print_by(title, outcomes, part):
    """The mean, the 90th percentile and the worst ratio to the floor of the outcomes with the same part(outcome)."""
    groups = {}
    for outcome in outcomes:
        groups.setdefault(part(outcome), []).append(outcome.ratio("floor"))
    print(f"\n{title:<20} {'cells':>5} {'mean':>6} {'90 %':>6} {'worst':>6}")
    for name, ratios in sorted(groups.items()):
        mean, ninetieth, worst = geometric_mean(ratios), percentile(ratios, 90), max(ratios)
        print(f"{name:<20} {len(ratios):>5} {mean:6.2f} {ninetieth:6.2f} {worst:6.2f}")


def print_random(outcomes):
    """Where random problems take longest: by family and by data, and the worst ones."""
    measured = [outcome for outcome in outcomes if outcome.ratio("floor") is not None]
    bits = {"f16": "16", "bf16": "16", "f64": "64"}
    print_by("family, bits", measured, lambda o: f"{o.plan.split(' ')[0]} {bits.get(o.cell.dtype, '32')}")
    print_by("data, bits", measured, lambda o: f"{o.cell.data} {bits.get(o.cell.dtype, '32')}")
    print("\nthe worst")
    for outcome in sorted(measured, key=lambda outcome: -outcome.ratio("floor"))[:10]:
        print(f"{outcome.ratio('floor'):7.2f}  {outcome.cell.name:<60} {outcome.plan}")


def peer_lines(outcomes, peers):
    """For each measured peer its time as a multiple of rtopk's, and in a last line those that were not measured."""
    lines = []
    if peers["measured"]:
        lines.append(f"{'peer / rtopk':<12} {'cells':>5} {'mean':>7} {'least':>7} {'most':>7}  wrong, failed; version")
    for peer in peers["measured"]:
        name = peer["name"]
        here = [outcome for outcome in outcomes if f"peer:{name}" in outcome.times and "rtopk" in outcome.times]
        ratios = [outcome.times[f"peer:{name}"] / outcome.times["rtopk"] for outcome in here]
        numbers = (geometric_mean(ratios), min(ratios), max(ratios)) if ratios else ()
        columns = " ".join(f"{number:7.2f}" for number in numbers) or f"{'-':>7} {'-':>7} {'-':>7}"
        wrong = [outcome.peer_wrong_rows.get(name, 0) for outcome in outcomes]
        failed = [outcome.peer_errors[name] for outcome in outcomes if name in outcome.peer_errors]
        trouble = [f"{sum(wrong)} wrong rows in {sum(map(bool, wrong))} cells"] if any(wrong) else []
        trouble += [f"failed in {len(failed)} cells, first: {failed[0]}"] if failed else []
        lines.append(f"{name:<12} {len(here):>5} {columns}  {'; '.join([*trouble, peer['version']])}")
    if peers["missing"]:
        reasons = "; ".join(f"{peer['name']} ({peer['why']})" for peer in peers["missing"])
        lines.append(f"not measured: {reasons}")
    return lines


def print_peers(outcomes, peers):
    print("", *peer_lines(outcomes, peers), sep="\n")


def print_heading():
    print(f"{'set':<12} {'cell':<44} {'floor us':>9} {'rtopk us':>9} {'/floor':>7} {'/base':>6} {'torch x':>8}  plan")


def print_outcome(outcome):
    if outcome.error:
        print(f"{outcome.cell.set:<12} {outcome.cell.name:<44} FAILED {outcome.error}", flush=True)
        return
    base = f"{outcome.ratio('baseline'):6.2f}" if outcome.ratio("baseline") else f"{'':6}"
    torch = f"{1 / outcome.ratio('torch'):8.1f}" if outcome.ratio("torch") else f"{'':8}"
    peers = "".join(peer_text(outcome, name) for name in outcome.times if name.startswith("peer:"))
    print(f"{outcome.cell.set:<12} {outcome.cell.name:<44} {outcome.times['floor']:9.1f} {outcome.times['rtopk']:9.1f}"
          f" {outcome.ratio('floor'):7.3f} {base} {torch}  {outcome.plan}{peers}", flush=True)  # fmt: skip


def peer_text(outcome, name):
    """A peer's time as a multiple of rtopk's; "!" marks wrong rows."""
    wrong = outcome.peer_wrong_rows.get(name.removeprefix("peer:"))
    return f"  {name.removeprefix('peer:')} x{outcome.times[name] / outcome.times['rtopk']:.1f}{'!' if wrong else ''}"
