"""A plugin for pytest: someone's tests with torch.topk by rtopk, or by torch.

    pytest -p rtopk_accelerated --rtopk {on,off,inside} --rtopk-report FILE ...

Every test starts from the same seed. The report has one line of JSON for the outcome of each test, so that it is there
even if the process dies, and a last one with the calls of torch.topk. With "inside" tests switch by themselves.
"""

from __future__ import annotations

import json

import pytest

import torchvision_nms

torchvision_nms.provide()  # before anyone imports torchvision

import comparison  # noqa: E402
import rtopk  # noqa: E402
from watch import Watch, assert_that_watches_see  # noqa: E402

SEED = 20250921


def pytest_addoption(parser):
    parser.addoption("--rtopk", choices=("on", "off", "inside"), required=True)
    parser.addoption("--rtopk-report", required=True)


class Reporter:
    def __init__(self, path, watch):
        self.file = open(path, "w", buffering=1)  # noqa: SIM115  # for the whole session
        self.watch = watch
        self.outcomes = {}

    def write(self, **line):
        self.file.write(json.dumps(line) + "\n")

    def pytest_runtest_setup(self, item):
        comparison.seed_everything(SEED)

    def pytest_runtest_logreport(self, report):
        # A test has three reports: it passed if all did, and else the first one that did not tells.
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if report.skipped else "xpassed"
        if report.failed and report.when != "call":
            outcome = "error"
        if self.outcomes.get(report.nodeid, ("passed", ""))[0] == "passed":
            self.outcomes[report.nodeid] = (outcome, str(report.longrepr or "")[-300:])
        if report.when == "teardown":
            outcome, why = self.outcomes[report.nodeid]
            self.write(test=report.nodeid, outcome=outcome, why=why)

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(test=report.nodeid, outcome="not collected", why=str(report.longrepr)[-300:])

    def pytest_sessionfinish(self):
        counted = self.watch or comparison.total
        self.write(
            calls=counted.calls,
            routed=counted.routed,
            mistakes=self.watch.mistakes if self.watch else [],
            results=comparison.total.results,
            same_bits=comparison.total.same_bits,
            by_ties=comparison.total.by_ties,
        )
        self.file.close()


def pytest_configure(config):
    if config.option.help:
        return
    try:
        assert_that_watches_see()
    except RuntimeError as error:
        raise pytest.UsageError(str(error)) from error
    watch = None
    if config.option.rtopk != "inside":
        rtopk.set_accelerated(config.option.rtopk == "on")
        watch = Watch().__enter__()
    config.pluginmanager.register(Reporter(config.option.rtopk_report, watch))
