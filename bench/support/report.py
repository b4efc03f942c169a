# SPDX-License-Identifier: MIT
"""What a benchmark in Python found: a line for people at once, a file for programs at the end."""
import json
import os


class Report:
    def __init__(self, bench):
        self.bench, self.results = bench, []
        print(f"{'what':<46} {'ours':>12} {'':<11} {'peer':>12}", flush=True)

    def add(self, what, ours, unit, peer=None, goal=None, at_least=True):
        value = ours / peer if peer else ours
        holds = None if goal is None else value >= goal if at_least else value <= goal
        self.results.append({"what": what, "value": round(value, 4), "unit": "ratio" if peer else unit, "goal": goal,
                             "holds": holds, **({"ours": ours, "limit": peer, "of": unit} if peer else {})})
        text = f"{what:<46} {ours:>12,.6g} {unit:<11}"
        text += f" {peer:>12,.6g} {value:>7.3f}x" if peer else " " * 22
        text += f"  goal {'>=' if at_least else '<='} {goal:g}: {'holds' if holds else 'MISSED'}" if goal else ""
        print(text, flush=True)

    def write_json(self):
        if os.environ.get("BENCH_JSON"):
            with open(os.environ["BENCH_JSON"], "w", encoding="utf-8") as f:
                json.dump({"bench": self.bench, "results": self.results}, f)
