# SPDX-License-Identifier: Apache-2.0
"""What c10d promises, tried on Gloo and on our backends, and compared.

A case gets a group and gives tensors; where Gloo refuses, it says by itself what must come out.
"""
import itertools
from datetime import timedelta

import torch
import torch.distributed as dist
from report import RANK, SIZE, attempt, tell
from torch.distributed import _functional_collectives as functional
from torch.distributed.distributed_c10d import _coalescing_manager

import trainyard.torch  # noqa: F401

BACKEND = "yard"  # or "yard+gloo"
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def given(rank, count, dtype=torch.float32):
    """The input of a rank: whole numbers, so that sums are exact in any order."""
    values = torch.randint(1, 4, (count,), generator=torch.Generator().manual_seed(100 * rank + count))
    return values.to(dtype)


def plain(op, inputs):
    """The reduction, written out."""
    stack = torch.stack(inputs)
    if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        total = stack.to(torch.float64).sum(0)
        return (total / len(inputs) if op == dist.ReduceOp.AVG else total).to(stack.dtype)
    if op == dist.ReduceOp.PRODUCT:
        return stack.to(torch.float64).prod(0).to(stack.dtype)
    if op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        return stack.amin(0) if op == dist.ReduceOp.MIN else stack.amax(0)
    bits = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
            dist.ReduceOp.BXOR: torch.bitwise_xor}[op]
    result = inputs[0]
    for one in inputs[1:]:
        result = bits(result, one)
    return result


@case
def all_reduce_every_op_and_dtype(group, rank, size):
    ops = [(op, dtype) for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN,
                                  dist.ReduceOp.MAX) for dtype in FLOATS + INTS]
    ops += [(op, dtype) for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
            for dtype in INTS]
    ops += [(dist.ReduceOp.AVG, dtype) for dtype in FLOATS]
    for op, dtype in ops if is_ours(group) and BACKEND == "yard" else ():
        tensor = given(rank, 17, dtype)
        dist.all_reduce(tensor, op, group=group)
        expected = plain(op, [given(r, 17, dtype) for r in range(size)])
        torch.testing.assert_close(tensor, expected, rtol=2e-2 if dtype == torch.bfloat16 else 1e-3, atol=0,
                                   msg=lambda text: f"{op} {dtype}: {text}")
    tensor = given(rank, 5000)
    dist.all_reduce(tensor, group=group)
    return [tensor]


@case
def all_reduce_every_size(group, rank, size):
    results = []
    for count in (0, 1, size - 1, size, size + 1, 1000, 70001, 1 << 20):
        tensor = given(rank, count)
        dist.all_reduce(tensor, group=group)
        results.append(tensor)
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar, group=group)
    return results + [scalar]


@case
def async_operations_end_in_any_order_of_waiting(group, rank, size):
    tensors = [given(rank, 1 + 100 * i) for i in range(20)]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
        assert work.is_completed() and work.is_success()
    return tensors


@case
def dropped_works_are_performed(group, rank, size):
    tensors = [given(rank, 3000) for _ in range(5)]
    for tensor in tensors:
        work = dist.all_reduce(tensor, group=group, async_op=True)
        if not (is_ours(group) and BACKEND == "yard"):
            work.wait()
        del work
    dist.all_reduce(torch.zeros(1), group=group)  # ours complete in order
    return tensors


@case
def futures_chain_and_may_wait_for_operations(group, rank, size):
    first, second = given(rank, 50), given(rank, 60)

    def go_on(future):
        inner = dist.all_reduce(second, group=group, async_op=True).get_future()
        return [future.value()[0] * 2, inner.wait()[0] * 3]

    work = dist.all_reduce(first, group=group, async_op=True)
    return work.get_future().then(go_on).wait()


@case
def waits_are_bounded_and_can_be_repeated(group, rank, size):
    tensor = given(rank, 10)
    key = f"bounded-{size}-{is_ours(group)}-{BACKEND}"
    if rank > 0:
        STORE.wait([key])
    work = dist.all_reduce(tensor, group=group, async_op=True)
    if rank == 0 and size > 1:
        try:
            work.wait(timedelta(milliseconds=30))
            raise AssertionError("wait() was not bounded")
        except RuntimeError as error:
            assert not is_ours(group) or "30 ms that wait() was given; it goes on" in str(error), str(error)
            assert not work.is_completed()
    if rank == 0:
        STORE.set(key, "1")
    work.wait()
    return [tensor]


@case
def coalesced_operations(group, rank, size):
    tensors = [given(rank, n) for n in (3, 1, 400, 90000)]
    with _coalescing_manager(group):
        for tensor in tensors:
            dist.all_reduce(tensor, group=group)
    outputs = [torch.zeros(n * size) for n in (2, 30)]
    with _coalescing_manager(group, async_ops=True) as manager:
        for n, output in zip((2, 30), outputs):
            dist.all_gather_into_tensor(output, given(rank, n), group=group)
    manager.wait()
    parts = [torch.zeros(n) for n in (4, 50)]
    if is_ours(group) and BACKEND == "yard":
        with _coalescing_manager(group):
            for part in parts:
                dist.reduce_scatter_tensor(part, given(rank, part.numel() * size), group=group)
    else:
        for part in parts:
            dist.reduce_scatter_tensor(part, given(rank, part.numel() * size), group=group)
    return tensors + outputs + parts


@case
def coalesced_operations_by_the_device(group, rank, size):
    """With a device, the backend's own start and end are called; Gloo and what wraps it have none."""
    cpu = torch.device("cpu") if is_ours(group) and BACKEND == "yard" else None
    if cpu is None:
        refused(RuntimeError, "does not implement", lambda: group._start_coalescing(torch.device("cpu")))
    sums = [given(rank, n) for n in (5, 1, 7000)]
    with _coalescing_manager(group, device=cpu):
        for tensor in sums:
            dist.all_reduce(tensor, group=group)
    wholes = [torch.zeros(n * size) for n in (3, 2000)]
    with _coalescing_manager(group, device=cpu, async_ops=True) as manager:
        for whole in wholes:
            dist.all_gather_into_tensor(whole, given(rank, whole.numel() // size), group=group)
    manager.wait()
    parts = [torch.zeros(n) for n in (4, 900)]
    if cpu is None:
        for part in parts:
            dist.reduce_scatter_tensor(part, given(rank, part.numel() * size), group=group)
    else:
        with _coalescing_manager(group, device=cpu):
            for part in parts:
                dist.reduce_scatter_tensor(part, given(rank, part.numel() * size), group=group)
    return sums + wholes + parts


@case
def operations_after_a_refused_batch(group, rank, size):
    """A batch of which one is refused is given up as a whole, and so is one that the script never ended."""
    if size == 1:
        return []

    def batch(got):
        return dist.batch_isend_irecv([
            dist.P2POp(dist.isend, given(rank, 4), group=group, group_peer=(rank + 1) % size),
            dist.P2POp(dist.irecv, got, group=group, group_peer=(rank - 1) % size)])

    ours = is_ours(group) and BACKEND == "yard"
    if ours:
        refused(ValueError, "not contiguous", lambda: batch(torch.zeros(4, 2)[:, 0]))
    told = given(rank, 5)
    dist.broadcast(told, group=group, group_src=0)
    if ours:
        group._start_coalescing(torch.device("cpu"))
        group._get_backend(torch.device("cpu")).recv([torch.zeros(3)], (rank - 1) % size, 0)
    got = torch.zeros(4)
    for work in batch(got):
        work.wait()
    return [told, got]


@case
def functional_collectives(group, rank, size):
    results = [functional.all_reduce(given(rank, 30), "sum", group),
               functional.all_reduce(given(rank, 31), "max", group),
               functional.all_gather_tensor(given(rank, 12).view(3, 4), 0, group),
               functional.all_gather_tensor(given(rank, 12).view(3, 4), 1, group),
               functional.reduce_scatter_tensor(given(rank, 6 * size).view(-1, 3), "sum", 0, group),
               functional.reduce_scatter_tensor(given(rank, 6 * size).view(3, -1), "sum", 1, group),
               functional.broadcast(given(rank, 40), size - 1, group)]
    sends = [(rank + 2 * r) % 4 for r in range(size)]
    takes = [(r + 2 * rank) % 4 for r in range(size)]
    results.append(functional.all_to_all_single(given(rank, sum(sends)), takes, sends, group))
    results += functional.all_reduce_coalesced([given(rank, 5), given(rank, 9)], "sum", group)
    results += functional.all_gather_into_tensor_coalesced([given(rank, 5), given(rank, 9)], group)
    parts = [given(rank, 4 * size), given(rank, 7 * size)]
    if is_ours(group) and BACKEND == "yard":
        results += functional.reduce_scatter_tensor_coalesced(parts, "sum", [0, 0], group)
    else:  # Gloo has no coalesced one
        results += [functional.reduce_scatter_tensor(part, "sum", 0, group) for part in parts]
    return [result + 0 for result in results]  # each is waited for by its use


@case
def all_gather_lists(group, rank, size):
    results = []
    for dtype, count in itertools.product((torch.float32, torch.bool, torch.int64, torch.complex64), (0, 1, 33)):
        outputs = [torch.zeros(count, dtype=dtype) for _ in range(size)]
        dist.all_gather(outputs, given(rank, count, dtype), group=group)
        results += outputs
    matrix = torch.zeros(4, 6)
    outputs = [torch.zeros(6, 4).t() for _ in range(size)]  # not contiguous
    dist.all_gather(outputs, given(rank, 24).view(6, 4).t() + matrix, group=group)
    return results + [output.contiguous() for output in outputs]


@case
def all_gather_lists_of_uneven_tensors(group, rank, size):
    expected = [given(r, r + 1) for r in range(size)]
    if is_ours(group) and BACKEND == "yard":
        outputs = [torch.zeros(r + 1) for r in range(size)]
        dist.all_gather(outputs, given(rank, rank + 1), group=group)
        return outputs
    return expected


@case
def flat_gathers_and_scatters(group, rank, size):
    results = []
    for count in (0, 1, 7, 5000, 300000):
        whole = torch.zeros(count * size)
        dist.all_gather_into_tensor(whole, given(rank, count), group=group)
        part = torch.zeros(count)
        dist.reduce_scatter_tensor(part, given(rank, count * size), group=group)
        results += [whole, part]
    if not (is_ours(group) and BACKEND == "yard"):
        return results + [plain(dist.ReduceOp.SUM, [given(r + 10 * rank, 6).view(2, 3) for r in range(size)])]
    parts = [given(rank + 10 * r, 6).view(2, 3) for r in range(size)]
    part = torch.zeros(2, 3)
    dist.reduce_scatter(part, parts, group=group)
    return results + [part]


@case
def rooted_operations_with_every_root(group, rank, size):
    results = []
    for root in range(size):
        tensor = given(rank, 999)
        dist.broadcast(tensor, group=group, group_src=root)
        summed = given(rank, 500)
        dist.reduce(summed, group=group, group_dst=root)
        gathered = [torch.zeros(8) for _ in range(size)] if rank == root else None
        dist.gather(given(rank, 8), gathered, group=group, group_dst=root)
        scattered = torch.zeros(9)
        inputs = [given(100 + r, 9) for r in range(size)] if rank == root else None
        dist.scatter(scattered, inputs, group=group, group_src=root)
        results += [tensor, scattered] + ([summed] if rank == root else []) + (gathered or [])
    return results


@case
def all_to_all_even_and_uneven(group, rank, size):
    even = torch.zeros(size * 5, 3)
    dist.all_to_all_single(even, given(rank, size * 15).view(size * 5, 3), group=group)
    sends = [(rank + 2 * r) % 4 for r in range(size)]
    takes = [(r + 2 * rank) % 4 for r in range(size)]
    uneven = torch.zeros(sum(takes), 2, dtype=torch.int64)
    dist.all_to_all_single(uneven, given(rank, 2 * sum(sends), torch.int64).view(-1, 2), takes, sends,
                           group=group)
    outputs = [torch.zeros(5) for _ in range(size)]
    dist.all_to_all(outputs, [given(rank + 7 * r, 5) for r in range(size)], group=group)
    expected = [given(r + 7 * rank, n + 1) for r, n in enumerate(takes)]
    lists = [torch.zeros_like(tensor) for tensor in expected]
    if is_ours(group) and BACKEND == "yard":  # Gloo's lists are of equal tensors
        dist.all_to_all(lists, [given(rank + 7 * r, n + 1) for r, n in enumerate(sends)], group=group)
    else:
        lists = expected
    return [even, uneven, *outputs, *lists]


@case
def sends_and_receives_match_by_tag(group, rank, size):
    if size == 1:
        return []
    following, before = (rank + 1) % size, (rank - 1) % size
    works = [dist.isend(given(rank, 10 + tag), group=group, group_dst=following, tag=tag) for tag in (1, 2, 3)]
    received = {tag: torch.zeros(10 + tag) for tag in (1, 2, 3)}
    for tag in (3, 1, 2):
        dist.recv(received[tag], group=group, group_src=before, tag=tag)
    for work in works:
        work.wait()
    large = torch.zeros(200000)
    batch = [dist.P2POp(dist.isend, given(rank, 200000), group=group, group_peer=following),
             dist.P2POp(dist.irecv, large, group=group, group_peer=before)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    return [*received.values(), large]


@case
def a_receive_from_any_rank_says_whose_it_was(group, rank, size):
    if is_ours(group) and BACKEND == "yard":
        refused(NotImplementedError, "src", lambda: dist.recv(torch.ones(2), group=group))
        return [] if rank > 0 else [given(r, 20 + r) for r in range(1, size)]
    if rank > 0:
        dist.send(given(rank, 20 + rank), group=group, group_dst=0, tag=rank)
        return []
    received = {r: torch.zeros(20 + r) for r in range(1, size)}
    for source, tensor in received.items():
        assert dist.recv(tensor, group=group, tag=source) == source
    return list(received.values())


@case
def a_receive_is_asked_before_its_send_comes(group, rank, size):
    if size == 1:
        return []
    key = f"asked-{size}-{is_ours(group)}-{BACKEND}"
    received = torch.zeros(6)
    if rank == 0:
        work = dist.irecv(received, group=group, group_src=size - 1)
        try:
            work.synchronize()
            if is_ours(group) and BACKEND != "yard":
                assert work._source_rank() == size - 1
        finally:
            STORE.set(key, "1")
            work.wait()
    elif rank == size - 1:
        STORE.wait([key])
        dist.send(given(rank, 6), group=group, group_dst=0)
    return [received]


@case
def receives_from_any_rank_and_from_one_are_not_mixed(group, rank, size):
    """Of one tag, while it is open what they take. Gloo may give either of them the message."""
    expected = [given(1, count) for count in (8, 16, 5, 7)]
    if size == 1 or (is_ours(group) and BACKEND == "yard"):
        return [] if rank > 0 else expected
    key = f"mixed-{size}-{is_ours(group)}-{BACKEND}"
    if rank == 1:
        for tag, tensor in zip((1, 1, 2, 2), expected):
            if tag == 2:
                STORE.wait([key])
            dist.send(tensor, group=group, group_dst=0, tag=tag)
    if rank > 0:
        return []
    first, second, third, fourth = received = [torch.zeros_like(tensor) for tensor in expected]
    from_any = dist.irecv(first, group=group, tag=1)
    if is_ours(group):
        refused(ValueError, "from any rank", lambda: dist.irecv(second, group=group, group_src=1, tag=1))
        refused(ValueError, "from any rank", lambda: dist.irecv(second, group=group, tag=1))
    from_any.wait()
    dist.recv(second, group=group, group_src=1, tag=1)
    from_one = dist.irecv(third, group=group, group_src=1, tag=2)
    if is_ours(group):
        refused(ValueError, "from rank 1", lambda: dist.irecv(fourth, group=group, tag=2))
    STORE.set(key, "1")
    from_one.wait()
    assert dist.recv(fourth, group=group, tag=2) == dist.get_global_rank(group, 1)
    return received


@case
def receives_from_any_rank_of_one_shape_are_waited_for_in_any_order(group, rank, size):
    expected = [given(1, 9)] * (2 * (size - 1))
    if is_ours(group) and BACKEND == "yard":
        return [] if rank > 0 else expected
    if rank > 0:
        for _ in range(2):
            dist.send(given(1, 9), group=group, group_dst=0)
        return []
    received = [torch.zeros_like(tensor) for tensor in expected]
    works = [dist.irecv(tensor, group=group) for tensor in received]
    for work in reversed(works):
        work.wait()
    return received


@case
def sends_of_one_tag_keep_their_order(group, rank, size):
    if size == 1:
        return []
    following, before = (rank + 1) % size, (rank - 1) % size
    sent = [given(rank + n, 10) for n in range(100)]  # more than may be under way at once
    received = [torch.zeros(10) for _ in sent]
    works = [dist.irecv(tensor, group=group, group_src=before) for tensor in received]
    works += [dist.isend(tensor, group=group, group_dst=following) for tensor in sent]
    for work in works:
        work.wait()
    return received


@case
def objects(group, rank, size):
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * (rank * 1000)}, group=group)
    assert everything == [{"rank": r, "text": "x" * (r * 1000)} for r in range(size)]
    told = [["from", 0], None] if rank == 0 else [None, None]
    dist.broadcast_object_list(told, group=group, group_src=0)
    assert told == [["from", 0], None]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object((rank, "y"), gathered, group=group, group_dst=0)
    assert rank != 0 or gathered == [(r, "y") for r in range(size)]
    own = [None]
    dist.scatter_object_list(own, [f"for {r}" for r in range(size)] if rank == 0 else None, group=group,
                             group_src=0)
    assert own == [f"for {rank}"]
    return []


@case
def barriers(group, rank, size):
    for round_number in range(3):
        key = f"barrier-{size}-{round_number}-{is_ours(group)}-{BACKEND}"
        STORE.add(key, 1)
        if round_number == 2:
            dist.monitored_barrier(group=group, wait_all_ranks=True)
        elif round_number == 1:
            dist.barrier(group=group, async_op=True).wait()
        else:
            dist.barrier(group=group)
        assert STORE.add(key, 0) == size
    return []


@case
def sequence_numbers_count_collectives(group, rank, size):
    backend = group._get_backend(torch.device("cpu"))
    before = backend._get_sequence_number_for_group()
    for _ in range(3):
        dist.all_reduce(torch.ones(4), group=group)
    assert backend._get_sequence_number_for_group() == before + 3
    return []


@case
def memory_of_the_group(group, rank, size):
    backend = group._get_backend(torch.device("cpu"))
    expected = given(0, 50000)
    for other in range(1, size):
        expected = expected + given(other, 50000)
    if not (is_ours(group) and BACKEND == "yard"):
        return [expected]
    for _ in range(3):  # the second and third time from the pool
        tensor = backend.allocate_tensor(50000, dtype=torch.float32, device=torch.device("cpu"))
        tensor.copy_(given(rank, 50000))
        dist.all_reduce(tensor, group=group)
        result = tensor.clone()
        del tensor
    return [result]


@case
def bad_input_is_refused(group, rank, size):
    if not is_ours(group):
        return []
    refused(ValueError, "not contiguous", lambda: dist.all_reduce(torch.ones(4, 6).t()[:2], group=group))
    refused(ValueError, "sparse", lambda: dist.all_reduce(torch.eye(3).to_sparse(), group=group))
    refused(ValueError, "PREMUL_SUM", lambda: dist.all_reduce(
        torch.ones(2), dist._make_nccl_premul_sum(2.0), group=group))
    refused(ValueError, "cannot reduce", lambda: dist.all_reduce(
        torch.ones(2, dtype=torch.float8_e4m3fn), group=group))
    refused(ValueError, "not defined for", lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND, group=group))
    refused(ValueError, "but there are", lambda: dist.all_gather([torch.ones(2)] * (size + 1), torch.ones(2),
                                                                  group=group))
    refused(ValueError, "should have", lambda: dist.all_gather_into_tensor(
        torch.ones(size + 1), torch.ones(1), group=group))
    refused(ValueError, "splits", lambda: dist.all_to_all_single(
        torch.ones(2 * size), torch.ones(2 * size), [1] * size, [2] * size, group=group))
    if BACKEND == "yard" and rank == 0:  # what wraps another one leaves it to that
        for sizes in ([1, 3], [2, 2, 1, 3]):
            if len(sizes) == size:
                parts = [torch.zeros(n) for n in sizes]
                refused(ValueError, "all must be of one size", lambda: dist.gather(
                    torch.ones(2), parts, group=group, group_dst=0))
                refused(ValueError, "all must be of one size", lambda: dist.scatter(
                    torch.ones(2), parts, group=group, group_src=0))
    dist.all_reduce(torch.ones(2), group=group)  # and the group still works
    return []


def refused(kind, text, body):
    try:
        body()
    except kind as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"{text}: not refused")


def is_ours(group):
    return group in OURS


def compare(name, function, gloo, ours):
    def body():
        own, expected = (function(group, RANK, dist.get_world_size(group)) for group in (ours, gloo))
        assert len(own) == len(expected)
        for a, b in zip(own, expected):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    attempt(name, body)


dist.init_process_group("gloo")
STORE = dist.distributed_c10d._get_default_store()
OURS = set()
for world in range(1, SIZE + 1):
    plain_group = dist.new_group(range(world), backend="gloo")
    for BACKEND in ("yard", "yard+gloo"):
        ours_group = dist.new_group(range(world), backend=BACKEND)
        OURS.add(ours_group)
        for case_name, body_of_case in CASES.items() if RANK < world else ():
            compare(f"{case_name} {world} {BACKEND}", body_of_case, plain_group, ours_group)
tell("end")
dist.destroy_process_group()
