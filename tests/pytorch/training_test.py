# SPDX-License-Identifier: Apache-2.0
"""Training on our backends gives the losses that it gives on Gloo (ranks/training.py)."""
import pytest

OURS = ("yard", "yard+gloo")


@pytest.fixture(scope="session")
def world(torch):
    return torch.run("training.py", 2)


def losses(world, case):
    return {line["rank"]: line["losses"] for line in world.of(case)}


@pytest.mark.parametrize("backend", OURS)
@pytest.mark.parametrize("way", ["ddp {} 0", "ddp {} 2", "fsdp {}"])
def test_losses_are_those_on_gloo(world, way, backend):
    expected = losses(world, way.format("gloo"))
    assert losses(world, way.format(backend)) == expected
    assert expected[0][-1] < expected[0][0]


def test_fsdp_may_use_memory_of_the_group(world):
    assert losses(world, "fsdp yard from group") == losses(world, "fsdp gloo")


def test_gradient_buckets_lie_in_shared_memory(world):
    assert all(line["in_shared_memory"] for line in world.of("ddp yard 0"))
    assert not any(line["in_shared_memory"] for line in world.of("ddp gloo 0"))


@pytest.mark.parametrize("backend", OURS)
@pytest.mark.parametrize("what", ["mesh", "checkpoint", "async checkpoint", "pipeline"])
def test_other_parts_of_pytorch_work(world, what, backend):
    world.assert_all_well(f"{what} {backend}")


@pytest.mark.parametrize(("hook", "distance"), [("fp16", 0.001), ("bf16", 0.01), ("int8", 0.01),
                                                ("power_sgd", 0.2), ("deep_gradient", 0.7)])
def test_compressed_gradients_train_nearly_as_well(world, hook, distance):
    plain, compressed = losses(world, "hook none")[0], losses(world, f"hook {hook}")[0]
    gained, plain_gain = compressed[0] - compressed[-1], plain[0] - plain[-1]
    assert plain_gain > 0
    assert gained > (1 - distance) * plain_gain


@pytest.mark.parametrize("hook", ["fp16", "bf16", "int8", "power_sgd", "deep_gradient"])
def test_the_library_compresses_as_pytorch_operations_do(world, hook):
    by_library, by_pytorch = losses(world, f"hook {hook} yard")[0], losses(world, f"hook {hook} gloo")[0]
    assert by_library == pytest.approx(by_pytorch, rel=1e-3)


@pytest.mark.parametrize("backend", ["yard", "gloo"])
@pytest.mark.parametrize("hook", ["power_sgd", "deep_gradient"])
def test_a_step_that_overflows_is_seen_by_all_ranks_and_then_forgotten(world, hook, backend):
    lines = world.of(f"overflowed {hook} {backend}")
    assert [line["finite"] for line in lines] == [[True, True, True, False, True, True, True]] * 2


@pytest.mark.parametrize("backend", ["yard", "gloo"])
def test_a_matrix_is_trained_that_had_no_gradient_at_first(world, backend):
    for line in world.of(f"begun late {backend}"):
        first, *later = line["norms"]
        assert first == 0 and min(later) > 0, line


@pytest.mark.parametrize("where", ["one host", "two hosts"])
def test_fusion_buffers_change_nothing_but_the_messages(world, where):
    assert losses(world, f"hook fusion on {where}")[0] == pytest.approx(losses(world, "hook none")[0], rel=1e-5)


@pytest.mark.parametrize("hook", ["deep_gradient", "power_sgd"])
def test_what_was_not_sent_survives_a_checkpoint(world, hook):
    for line in world.of(f"resumed {hook}"):
        assert line["losses"] == pytest.approx(line["expected"], rel=1e-5)


def test_what_sums_lost_in_rounding_is_part_of_it(world):
    assert all(line["losses"] == line["expected"] for line in world.of("resumed int8"))
    assert all(line["losses"] != line["expected"] for line in world.of("resumed int8 without its sums"))


def test_what_sums_lost_is_dropped_aloud_when_the_world_has_another_size(world):
    for line in world.of("resized"):
        quiet, kept = line["same"]
        assert quiet == 0 and kept > 0
        assert line["owned"] == 0
        assert ["of 4 ranks" in text and "2 now" in text for text in line["said"]] == [True], line


def test_a_state_that_was_saved_without_what_sums_lost_is_loaded(world):
    for line in world.of("without sums"):
        assert line["same"] and line["owned"] == 0 and line["said"] == 1, line  # what "resized" said


def test_what_was_not_sent_stays_where_it_is(world):
    for line in world.of("kept in place"):
        first, *later = line["places"]
        assert len(first) >= 4  # two kinds, of several buckets
        assert later == [first, first]


def test_ranks_end_well(world):
    assert world.codes == [0, 0], world.errors[-3000:]
