# SPDX-License-Identifier: Apache-2.0
"""Trainyard for training scripts: collectives for PyTorch in trainyard.torch."""

__version__ = "0.1.0"
