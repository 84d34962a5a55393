# SPDX-License-Identifier: Apache-2.0
"""For PyTorch: torch_smddp (the backend "smddp"); distributed and parallel (the API before 1.4)."""
