# SPDX-License-Identifier: Apache-2.0
"""What ./yard quickstart shows of its job: how it stands, its lines, its loss, and, until there is one, what it is busy
with. With a terminal the curve and the seconds are redrawn in place; without one a line is printed now and then.
"""
import re
import sys
import time

RESUMED = re.compile(r"resuming at step (\d+)")
CARRIER = re.compile(r"gradients by (\S+)")

ERASE = "\r\x1b[2K"  # the line that the cursor is in

# What a job in training does before its first loss. The examples print a line at the end of each but the last.
ENVIRONMENT = "environment: Python and PyTorch start on each instance"
TOKENIZER = "tokenizer: the first instance learns one from the text"
FIRST_STEP = "first step: the model is made and sees its first batch"
MET = re.compile(r"^\d+ ranks have met")
STARTED = re.compile(r"^(starting|resuming at step \d+): ")


class Curve:
    """The loss over the steps, drawn in place on a terminal."""

    rows, columns = 12, 64

    def __init__(self, steps):
        self.steps, self.points, self.drawn, self.printed = steps, [], False, -1
        self.on_terminal = sys.stdout.isatty()

    def show(self, points):
        """All points so far, as (step, loss)."""
        new, self.points = points[len(self.points):], points
        if self.on_terminal and new:
            self.draw()
        for step, loss in [] if self.on_terminal else new:
            if step // 20 != self.printed // 20 or step == self.steps:
                self.printed = step
                print(f"    step {step:4d} of {self.steps}  loss {loss:.3f}", flush=True)

    def draw(self):
        low = min(loss for _, loss in self.points)
        high = max(max(loss for _, loss in self.points), low + 0.1)
        grid = [[" "] * self.columns for _ in range(self.rows)]
        for step, loss in self.points:
            x = min(self.columns - 1, step * self.columns // max(1, self.steps))
            grid[round((high - loss) / (high - low) * (self.rows - 1))][x] = "●"
        if self.drawn:
            sys.stdout.write(f"\x1b[{self.rows + 2}A")
        self.drawn = True
        for i, row in enumerate(grid):
            value = high - (high - low) * i / (self.rows - 1)
            print(f"\x1b[2K  {value:5.2f} │{''.join(row)}")
        print(f"\x1b[2K        └{'─' * self.columns}")
        print(f"\x1b[2K         step {self.points[-1][0]} of {self.steps}, loss {self.points[-1][1]:.3f}", flush=True)


class Story:
    """All of it, in the order in which it happens. `step` is the pattern of the lines that the curve stands for."""

    def __init__(self, curve, step, clock=time.monotonic):
        self.curve, self.step, self.clock = curve, step, clock
        self.said, self.resumed_at, self.carrier = set(), None, None
        self.phase, self.since, self.in_line = None, 0.0, False

    def say(self, text):
        if self.in_line:
            print(ERASE, end="")
        self.in_line, self.curve.drawn = False, False  # the next drawing goes below
        print(text, flush=True)

    def transitions(self, job):
        for status in job["SecondaryStatusTransitions"]:
            told = status["Status"], status["StartTime"], status["StatusMessage"]
            if told not in self.said:
                self.said.add(told)
                self.enter(None)
                self.say(f"  {status['Status']}: {status['StatusMessage']}")
                if status["Status"] == "Training":
                    self.enter(ENVIRONMENT)

    def line(self, host, text):
        if resumed := RESUMED.search(text):
            self.resumed_at = int(resumed[1])
        if carrier := CARRIER.search(text):
            self.carrier = carrier[1]
        if self.step.search(text):
            self.enter(None)
        elif MET.search(text):
            self.enter(TOKENIZER)
        elif STARTED.search(text):
            self.enter(None)
            self.say(f"  {host}: {text}")
            self.enter(FIRST_STEP)
        else:
            self.say(f"  {host}: {text}")

    def losses(self, points):
        if len(points) > len(self.curve.points):
            self.enter(None)
        self.curve.show(points)

    def enter(self, phase):
        """The job is busy with this from now on; None: what it does shows by itself."""
        if self.in_line:
            self.tick()
            print()
        self.in_line = False
        self.phase, self.since = phase, self.clock()
        if phase and not self.curve.on_terminal:
            print(f"  {phase}", flush=True)
        self.tick()

    def tick(self):
        """On a terminal: for how long it has been busy with the same."""
        if self.phase and self.curve.on_terminal:
            self.in_line, self.curve.drawn = True, False
            print(f"{ERASE}  {self.phase}, {self.clock() - self.since:.0f} s", end="", flush=True)
