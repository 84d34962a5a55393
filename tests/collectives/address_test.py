# SPDX-License-Identifier: Apache-2.0
"""Ranks without PyTorch and without a launcher: they know an address, or the file that a training job gives to each
of its containers, and meet at our own store."""
import json
import os
import re
import subprocess
import sys

import pytest
import yard
from conftest import wait_for

sys.path.append(str(yard.ROOT / "python"))
from trainyard import job  # noqa: E402

pytestmark = pytest.mark.root

PORT = 29400  # free: the hosts of these tests are nobody else's


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The example in C, compiled as its first lines say."""
    made = tmp_path_factory.mktemp("sum") / "sum"
    folder = yard.LIBRARY.parent
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", made,
                    yard.ROOT / "examples/collectives/sum.c", "-I", yard.ROOT / "src/comm/c",
                    "-L", folder, f"-Wl,-rpath,{folder}", "-lyardcomm"], check=True, timeout=60)
    return made


def test_the_guide_compiles_and_runs_the_example_as_it_says(tmp_path):
    for name in ("examples", "src", "build"):
        (tmp_path / name).symlink_to(yard.ROOT / name)
    typed = re.search(r"^cc -o sum .*?(?=^```$)", (yard.ROOT / "docs/collectives.md").read_text(), re.S | re.M)[0]
    done = subprocess.run(["bash", "-euc", typed + "wait"], cwd=tmp_path, capture_output=True, text=True, timeout=90)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (
        0, [f"rank {rank} of 2 on 1 hosts: the sum is 3" for rank in (0, 1)]), done.stderr


def config(cable, folder, host, current=None):
    """What the container of one of two hosts is told of its job."""
    file = folder / f"resourceconfig-{host}.json"
    file.write_text(json.dumps({
        "current_host": current or cable.address(host), "hosts": [cable.address(0), cable.address(1)],
        "network_interface_name": cable.links[host]}))
    return file


def start(cable, program, host, *arguments):
    return subprocess.Popen(["ip", "netns", "exec", cable.namespaces[host], program, str(PORT), *map(str, arguments)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={k: v for k, v in os.environ.items() if not k.startswith("TRAINYARD_")})


def test_a_program_in_c_finds_its_place_and_sums_over_all_ranks_of_a_job(cable, program, tmp_path):
    cable.set("up")
    files = [config(cable, tmp_path, host) for host in (0, 1)]
    ranks = [start(cable, program, host, local, 2, files[host]) for host in (1, 0) for local in (0, 1)]
    said = [rank.communicate(timeout=90) for rank in ranks]
    assert sorted(out for out, _ in said) == [f"rank {n} of 4 on 2 hosts: the sum is 10\n" for n in range(4)], said
    assert {rank.returncode for rank in ranks} == {0}


def test_a_host_that_is_not_of_the_job_is_told_so(cable, program, tmp_path):
    lost = start(cable, program, 0, 0, 1, config(cable, tmp_path, 0, current="algo-7"))
    _, error = lost.communicate(timeout=60)
    assert lost.returncode == 1
    assert error == 'sum: resourceconfig.json: "current_host" is "algo-7", which is not among "hosts"\n'


def told(tmp_path, text):
    file = tmp_path / "resourceconfig.json"
    file.write_text(text)
    return file


def test_python_finds_the_same_place_without_pytorch(tmp_path):
    file = told(tmp_path, '{"current_host": "algo-2", "hosts": ["algo-1", "algo-10", "algo-2"], "network_interface_name": "eth1"}')
    assert job.place(config=file) == (2, 3, "algo-1", "eth1")
    assert job.place(3, 4, file) == (11, 12, "algo-1", "eth1")
    assert "torch" not in vars(job)


@pytest.mark.parametrize("text, says", [
    ('{"current_host": "b", "hosts": ["a"]}', "'b' is not among"), ('{"hosts": ["a"]}', "None is not among"),
    ('{"current_host": "a", "hosts": ["a", "a"]}', "one comes twice"), ('{"current_host": "a", "hosts": "a"}', "'a'"),
    ("{", "Expecting property name"), ("[]", "no object")])
def test_python_says_what_is_wrong_with_the_file(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        job.place(config=told(tmp_path, text))


@pytest.mark.parametrize("local_rank, local_size", [(2, 2), (-1, 2), (0, 0)])
def test_python_refuses_a_local_rank_that_is_none(tmp_path, local_rank, local_size):
    with pytest.raises(ValueError, match=f"local rank {local_rank} of {local_size}"):
        job.place(local_rank, local_size, told(tmp_path, '{"current_host": "a", "hosts": ["a"]}'))


def at(cable):
    return {"address": f"{cable.address(0)}:{PORT}"}


def serves(cable, host=0):
    return PORT in cable.listeners(host)


def begin_first(world, cable):
    """Rank 0 alone: it serves the store until the others have joined."""
    world[0].begin("create", **at(cable))
    wait_for(lambda: serves(cable), 20, "rank 0's store")


def complete(world, cable):
    for rank in world.without(0):
        rank.begin("create", **at(cable))
    for rank in world.ranks:
        answer = rank.answer(60)
        assert answer.code == "OK", answer.error


def test_ranks_that_know_an_address_meet_there_and_leave_no_port_open(make_world, cable):
    world = make_world("mixed")
    begin_first(world, cable)
    assert not serves(cable, 1)
    complete(world, cable)
    assert not serves(cable)
    assert {answer.value for answer in world.all("free_in_child")} == {0}
    assert {answer.code for answer in world.all("run", kind="all_reduce", count=1000)} == {"OK"}


def test_one_who_never_comes_is_named_to_all_others(make_world, cable):
    world = make_world("mixed")
    for rank in world.without(3):
        rank.begin("create", join_timeout=3, **at(cable))
    for rank in world.without(3):
        answer = rank.answer(60)
        assert answer.code == "DEADLINE" and "missing 3" in answer.error, answer
        assert f"they meet at {cable.address(0)}:{PORT}" in answer.error


def test_what_is_wrong_is_told_to_all_although_the_store_is_that_of_a_rank_that_fails(make_world, cable):
    world = make_world("tcp2")
    world[1].begin("create", size=3, **at(cable))
    world[0].begin("create", **at(cable))
    for rank in world.ranks:
        answer = rank.answer(60)
        assert answer.code == "CONFLICT" and 'the world "world" has two sizes' in answer.error, answer


def test_an_address_is_for_one_world_that_is_made_at_a_time(make_world, cable):
    first, second = (make_world("tcp2", name) for name in ("first", "second"))
    begin_first(first, cable)
    answer = second[0].do("create", **at(cable))
    assert answer.code == "ALREADY_EXISTS", answer
    assert "serving the place where ranks meet" in answer.error
    complete(first, cable)
    second.create(**at(cable))
    for world in (first, second):
        assert {answer.code for answer in world.all("run", kind="all_reduce", count=1000)} == {"OK"}


@pytest.mark.parametrize("address, says", [("10.213.7.1", "is no address"), ("10.213.7.1:0", "a port that all")])
def test_what_is_no_address_is_refused(make_world, address, says):
    answer = make_world("tcp2")[0].do("create", address=address)
    assert answer.code == "INVALID_ARGUMENT" and says in answer.error, answer


def test_an_address_where_nobody_serves_is_named(make_world, cable):
    answer = make_world("tcp2")[1].do("create", join_timeout=1, **at(cable))
    assert answer.code in ("UNAVAILABLE", "DEADLINE") and f"{cable.address(0)}:{PORT}" in answer.error, answer
