#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/quickstart_view.py: what is shown of a job before its first loss, with a terminal and without one."""
import contextlib
import io
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from quickstart_view import Curve, Story  # noqa: E402

STEP = re.compile(r"step \d+ loss ")


class Screen(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal

    def rows(self):
        """What stands there in the end: a carriage return and "erase the line" begin a row anew."""
        return [row.rsplit("\r\x1b[2K", 1)[-1] for row in self.getvalue().split("\n")]


def at(status, message):
    return {"Status": status, "StartTime": message, "StatusMessage": message}


class Phases(unittest.TestCase):
    def tell(self, is_terminal):
        """A job from its start to its first loss, looked at once a second."""
        self.now, screen = 100.0, Screen(is_terminal)
        with contextlib.redirect_stdout(screen):
            story = Story(Curve(steps=40), STEP, clock=lambda: self.now)
            history = [at("Starting", "Starting the instances")]
            for second, lines in enumerate([[], [], [], ["2 ranks have met"], ["a warning"], ["starting: 2 ranks"], [], []]):
                self.now = 100.0 + second
                if second == 1:
                    history.append(at("Training", "In progress"))
                story.transitions({"SecondaryStatusTransitions": history})
                for text in lines:
                    story.line("algo-1", text)
                story.losses([(1, 7.5)] if second == 7 else [])
                story.tick()
        return screen

    def test_are_a_line_each_without_a_terminal(self):
        self.assertEqual(self.tell(is_terminal=False).getvalue().splitlines(), [
            "  Starting: Starting the instances",
            "  Training: In progress",
            "  environment: Python and PyTorch start on each instance",
            "  tokenizer: the first instance learns one from the text",
            "  algo-1: a warning",
            "  algo-1: starting: 2 ranks",
            "  first step: the model is made and sees its first batch",
            "    step    1 of 40  loss 7.500",
        ])

    def test_count_their_seconds_on_a_terminal(self):
        screen = self.tell(is_terminal=True)
        self.assertEqual(screen.rows()[:7], [
            "  Starting: Starting the instances",
            "  Training: In progress",
            "  environment: Python and PyTorch start on each instance, 2 s",
            "  algo-1: a warning",
            "  tokenizer: the first instance learns one from the text, 2 s",
            "  algo-1: starting: 2 ranks",
            "  first step: the model is made and sees its first batch, 2 s",
        ])
        self.assertIn("each instance, 1 s\r", screen.getvalue())

    def test_leave_a_drawn_curve_in_one_piece(self):
        rows = self.tell(is_terminal=True).rows()
        self.assertEqual(len(rows[7:]), Curve.rows + 3)
        self.assertIn("step 1 of 40, loss 7.500", rows[-2])

    def test_begin_again_with_each_attempt(self):
        with contextlib.redirect_stdout(Screen(False)) as screen:
            story = Story(Curve(steps=40), STEP)
            first, repair, second = at("Training", "first"), at("Starting", "Repairing"), at("Training", "second")
            story.transitions({"SecondaryStatusTransitions": [first]})
            story.line("algo-1", "step 21 loss 5.0")
            story.transitions({"SecondaryStatusTransitions": [first, repair, second]})
            story.line("algo-1", "resuming at step 20: 2 ranks, gradients by yard")
        self.assertEqual([line.split(":")[0].strip() for line in screen.getvalue().splitlines()],
                         ["Training", "environment", "Starting", "Training", "environment", "algo-1", "first step"])
        self.assertEqual((story.resumed_at, story.carrier), (20, "yard"))


if __name__ == "__main__":
    unittest.main()
