# SPDX-License-Identifier: Apache-2.0
"""Measures the table of algorithms of these hosts, prints it, and writes it to a file:

    torchrun --nproc-per-node 2 -m trainyard.torch.measure choices.txt

Jobs with TRAINYARD_COMM_TABLE=choices.txt then choose by it.
"""
import argparse
from pathlib import Path

import torch.distributed as dist

from . import _write, sweep


def main():
    parser = argparse.ArgumentParser(prog="python -m trainyard.torch.measure",
                                     description="Measures which algorithms are best on these hosts.")
    parser.add_argument("file", nargs="?", type=Path, help="where rank 0 writes the table")
    parser.add_argument("--seconds", type=float, default=2.0, help="at most so long (2)")
    options = parser.parse_args()
    dist.init_process_group("yard")
    text = sweep(options.seconds)
    if dist.get_rank() == 0:
        print(text, end="")
        if options.file:
            _write(options.file, text)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
