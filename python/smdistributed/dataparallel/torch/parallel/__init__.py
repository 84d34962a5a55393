# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel by its shorter name; scripts of that time also import it from .distributed."""
from .distributed import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
