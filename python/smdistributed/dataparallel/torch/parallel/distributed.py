# SPDX-License-Identifier: Apache-2.0
"""The API of smdistributed.dataparallel before 1.4: DistributedDataParallel, as in torch.nn.parallel."""
from torch.nn.parallel import DistributedDataParallel as _DistributedDataParallel

from .. import distributed as _distributed

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(_DistributedDataParallel):
    """Takes torch.nn.parallel's arguments. Makes the process group when the script has not. Gradients are
    reduced in PyTorch's buckets; trainyard.torch.hooks.fusion packs them into balanced fusion buffers."""

    def __init__(self, module, device_ids=None, output_device=None, broadcast_buffers=True,
                 process_group=None, bucket_cap_mb=None, **options):
        if not _distributed.is_initialized():
            _distributed.init_process_group()
        if next(module.parameters()).device.type == "cpu":
            device_ids = output_device = None  # scripts give their local rank
        super().__init__(module, device_ids=device_ids, output_device=output_device,
                         broadcast_buffers=broadcast_buffers, process_group=process_group,
                         bucket_cap_mb=bucket_cap_mb, **options)
