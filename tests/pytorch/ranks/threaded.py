# SPDX-License-Identifier: Apache-2.0
"""A backend of somebody else's, in Python: a thread for each operation, which moves tensors through the
store. Tensors of the device "meta" have no bytes: of those it only compares sizes, and where they differ
it waits for ever, as backends of GPUs do. "stubborn" also raises when it is to end."""
import io
import threading

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist


class Aborted(RuntimeError):
    pass


def begin(perform, tensors):
    """A Work that says nothing of an error, as NCCL's does when it is aborted."""
    future = torch.futures.Future()

    def run():
        try:
            perform()
        except Aborted:
            pass
        future.set_result(tensors)

    threading.Thread(target=run, daemon=True).start()
    return c10d._create_work_from_future(future)


def as_bytes(tensor):
    if tensor.device.type == "meta":
        return f"meta {tensor.numel()}".encode()
    written = io.BytesIO()
    torch.save(tensor.contiguous(), written)
    return written.getvalue()


class Threaded(c10d.Backend):
    def __init__(self, store, rank, size, _timeout):
        super().__init__(rank, size)
        self._store, self._rank, self._size = store, rank, size
        self._number, self._messages = 0, {}
        self._aborted, self._held = threading.Event(), None

    def name(self):
        return "threaded"

    def abort(self):
        self._aborted.set()

    def shutdown(self):
        pass

    def supports_coalescing(self):
        return True

    def start_coalescing(self):
        self._held = []

    def end_coalescing(self):
        held, self._held = self._held, None
        return self._begin(lambda: [perform() for perform in held], [])

    def _begin(self, perform, tensors):
        if self._held is not None:
            self._held.append(perform)
            return None
        return begin(perform, tensors)

    def _taken(self, key):
        while not self._store.check([key]):
            if self._aborted.wait(0.005):
                raise Aborted("threaded was aborted")
        return self._store.get(key)

    def _exchanged(self, number, tensor):
        """The tensors of all ranks."""
        own = as_bytes(tensor)
        self._store.set(f"{number}/{self._rank}", own)
        everyones = [self._taken(f"{number}/{rank}") for rank in range(self._size)]
        if tensor.device.type != "meta":
            return [torch.load(io.BytesIO(one)) for one in everyones]
        while any(one != own for one in everyones) and not self._aborted.wait(0.01):
            pass
        if self._aborted.is_set():
            raise Aborted("threaded was aborted")
        return [tensor] * self._size

    def _numbered(self, tensors, perform):
        self._number += 1
        number = self._number
        return self._begin(lambda: [perform(f"{number}.{i}", tensor) for i, tensor in enumerate(tensors)], tensors)

    def allreduce(self, tensors, _options):
        return self._numbered(tensors, lambda number, tensor: tensor.copy_(sum(self._exchanged(number, tensor))))

    def allreduce_coalesced(self, tensors, options):
        return self.allreduce(tensors, options)

    def broadcast(self, tensors, options):
        return self._numbered(
            tensors, lambda number, tensor: tensor.copy_(self._exchanged(number, tensor)[options.rootRank]))

    def reduce(self, _tensors, _options):
        if self._rank == 1:
            raise ValueError("not on this rank")
        return self._numbered([torch.zeros(1)], self._exchanged)

    def barrier(self, _options):
        return self._numbered([torch.zeros(1)], self._exchanged)

    def _message(self, source, to, tag):
        """The key of the next message between the two."""
        place = (source, to, tag)
        self._messages[place] = self._messages.get(place, 0) + 1
        return f"message/{source}/{to}/{tag}/{self._messages[place]}"

    def send(self, tensors, to, tag):
        key = self._message(self._rank, to, tag)
        return self._begin(lambda: self._sent(key, tensors[0]), tensors)

    def _sent(self, key, tensor):
        self._store.set(key, as_bytes(tensor))
        if tensor.device.type == "meta":
            self._taken(f"{key}/taken")  # never: nobody can take it

    def recv(self, tensors, source, tag):
        key = self._message(source, self._rank, tag)
        return self._begin(lambda: tensors[0].copy_(torch.load(io.BytesIO(self._taken(key)))), tensors)


class Stubborn(Threaded):
    def abort(self):
        super().abort()
        raise RuntimeError("stubborn cannot be aborted")

    def shutdown(self):
        raise RuntimeError("stubborn cannot be shut down")


dist.Backend.register_backend("threaded", Threaded, devices=["cpu"])
dist.Backend.register_backend("stubborn", Stubborn, devices=["cpu"])
