# SPDX-License-Identifier: Apache-2.0
"""Worlds that do not come together, and strangers at the door."""
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import pytest
from conftest import wait_for
from world import patience

pytestmark = pytest.mark.root

NOISE = r'''
import os, socket, sys, time
address, *ports = sys.argv[1:]
kept = []
for port in map(int, ports):
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"TYC\x02\xff\xff\xff\xff", b"TYC\x63\x04\0\0\0abcd", os.urandom(5000),
                  b"TYC\x02\x08\0\0\0\xff\0\0\0abcd", b"TY", b""):
        one = socket.create_connection((address, port), 3)
        try:
            one.sendall(noise)
        except OSError:
            pass
        kept.append(one)
time.sleep(0.3)
'''


CROWD = r'''
import socket, sys
address, *ports = sys.argv[1:]
kept = [socket.create_connection((address, port), 20) for port in map(int, ports) for _ in range(400)]
print("all are there", flush=True)
sys.stdin.read()
'''


def path_of(world, what, rank, name="world"):
    return world.store / urllib.parse.quote(f"trainyard/{name}/{what}/{rank}", safe="")


def tell(world, what, rank, entry):
    """All of it at once: ranks may be looking."""
    made = world.store / ".made"
    made.write_bytes(entry)
    made.rename(path_of(world, what, rank))


def fields_of(entry):
    fields, rest = [], entry[8:]
    while rest:
        size = int.from_bytes(rest[:4], "little")
        fields.append(rest[4:4 + size])
        rest = rest[4 + size:]
    return fields


def entry_of(fields, version=None, like=b""):
    payload = b"".join(len(field).to_bytes(4, "little") + field for field in fields)
    return b"TYC" + bytes([like[3] if version is None else version]) + len(payload).to_bytes(4, "little") + payload


def own_entry(world):
    """What rank 0 says of itself, once it does."""
    return wait_for(lambda: path_of(world, "rank", 0).exists() and path_of(world, "rank", 0).read_bytes(), 10,
                    "the entry of rank 0")


def shout(cable, ports):
    """Garbage from the second host to all of these ports of the first."""
    subprocess.run(["ip", "netns", "exec", cable.namespaces[1], sys.executable, "-c", NOISE, cable.address(0),
                    *map(str, ports)], check=True, timeout=20)


def test_a_world_that_does_not_complete_lists_who_is_missing(make_world, cable):
    world = make_world("mixed")
    for rank in (world[0], world[2]):
        rank.begin("create", join_timeout=1)
    for rank in (world[0], world[2]):
        answer = rank.answer()
        assert answer.code == "DEADLINE"
        assert answer.ended - answer.began < patience(2)
        assert 'the world "world" of 4 ranks did not complete within 1 s: missing 1 and 3' in answer.error
        assert (f"there are rank 0 (pid {world[0].pid} on host-0, {cable.address(0)}), "
                f"rank 2 (pid {world[2].pid} on host-1, {cable.address(1)})") in answer.error
        assert f"they meet at {world.store}" in answer.error


def test_a_rank_that_announced_itself_and_died_is_missing_too(make_world, cable):
    world = make_world("tcp2")
    world[0].begin("create", join_timeout=3)
    fields = fields_of(own_entry(world))
    fields[0], fields[2], fields[3], fields[4] = b"1", b"elsewhere", b"host-7", b"4711"
    tell(world, "rank", 1, entry_of(fields, like=own_entry(world)))
    # Its ports are open now: noise must not keep the world from noticing.
    ports = wait_for(lambda: cable.listeners(0), 10, "open ports")
    shout(cable, ports)
    answer = world[0].answer()
    assert answer.code == "DEADLINE"
    assert answer.ended - answer.began < patience(4)
    assert "did not complete within 3 s: no connection came from rank 1 (pid 4711 on host-7, " in answer.error


@pytest.mark.parametrize("layout", ["shm4", "mixed"])
def test_two_worlds_of_one_name_are_told_apart(make_world, layout):
    first = make_world(layout).create()
    second = make_world(layout)
    for number, answer in enumerate(second.all("create")):
        assert answer.code == "ALREADY_EXISTS"
        assert answer.ended - answer.began < patience(2)
        assert f"rank {number} (pid {first[number].pid} on host-" in answer.error
        assert 'has this number in the world "world"' in answer.error
    assert {answer.code for answer in first.all("run", kind="barrier")} == {"OK"}


def test_two_processes_of_one_rank_are_told_apart(make_world):
    world = make_world("shm2")
    world[0].begin("create", join_timeout=1)
    own_entry(world)
    answer = world[1].do("create", rank=0)
    assert answer.code == "ALREADY_EXISTS"
    assert f"rank 0 (pid {world[0].pid} on host-0) has this number" in answer.error
    assert world[0].answer().code == "DEADLINE"


def test_two_sizes_of_a_world_are_named_by_all_at_once(make_world):
    world = make_world("mixed")
    sizes = [6, 6, 9, 9]
    for rank, size in zip(world.ranks, sizes):
        rank.begin("create", size=size, join_timeout=60)
    for rank, size in zip(world.ranks, sizes):
        answer = rank.answer()  # though neither world is ever complete
        assert answer.code == "CONFLICT"
        assert 'the world "world" has two sizes: rank ' in answer.error
        assert f"was told of {15 - size} ranks, this one (rank {rank.number}) of {size}" in answer.error


def test_a_host_that_is_out_of_reach_for_a_moment_is_waited_for(make_world, cable):
    world = make_world("mixed")
    with cable.no_way():
        for rank in world.ranks:
            rank.begin("create", join_timeout=50)
        wait_for(path_of(world, "address", 0).exists, 20, "the address of rank 0")
        time.sleep(1)  # tries that fail
    for rank in world.ranks:
        answer = rank.answer(60)
        assert answer.code == "OK", answer.error
    with cable.no_way():
        for rank in world.ranks:
            rank.begin("run", kind="all_reduce", count=1000, dtype="int8")
        time.sleep(1)
    answers = [rank.answer() for rank in world.ranks]
    assert [(answer.code, answer.error, answer.value) for answer in answers] == [("OK", "", "04" * 16)] * 4


def test_another_version_of_the_protocol_is_named_with_ours(make_world):
    world = make_world("shm2")
    world[0].begin("create", join_timeout=5)
    own = own_entry(world)
    tell(world, "rank", 1, entry_of(fields_of(own), version=99))
    answer = world[0].answer()
    assert answer.code == "CONFLICT"
    assert answer.ended - answer.began < patience(2)
    assert "reading the entry of rank 1" in answer.error
    assert f"the peer speaks version 99 of the protocol, this side version {own[3]}" in answer.error


def test_an_entry_that_is_none_is_an_error(make_world):
    world = make_world("shm2")
    tell(world, "rank", 1, b"something else")
    answer = world[0].do("create", join_timeout=5)
    assert answer.code == "CORRUPT"
    assert "reading the entry of rank 1" in answer.error


def test_garbage_on_the_ports_disturbs_nobody(make_world, cable):
    world = make_world("mixed").create()
    ports = cable.listeners(0)
    assert len(ports) == 2  # one of each rank: that of joining is closed
    for rank in world.ranks:
        rank.begin("run", kind="barrier")
    assert {rank.answer().code for rank in world.ranks} == {"OK"}
    began = time.monotonic()
    shout(cable, ports)
    answers = world.all("run", kind="all_reduce", count=1_000_000, dtype="int8")
    assert {(answer.code, answer.value) for answer in answers} == {("OK", "04" * 16)}
    assert time.monotonic() - began < patience(5)


def test_silent_strangers_keep_nobody_out(make_world, cable):
    world = make_world("mixed").create()
    ports = cable.listeners(0)
    held = subprocess.Popen(["ip", "netns", "exec", cable.namespaces[1], sys.executable, "-c", CROWD, cable.address(0),
                             *map(str, ports)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert held.stdout.readline() == b"all are there\n"
        answers = world.all("run", kind="all_reduce", count=1000, dtype="int8")  # its connections are made now
        assert {(answer.code, answer.value) for answer in answers} == {("OK", "04" * 16)}
        for rank in world.ranks[:2]:
            assert len(list(Path(f"/proc/{rank.pid}/fd").iterdir())) < 350
    finally:
        held.communicate(timeout=20)


def test_an_interface_that_is_none_is_named_with_those_there_are(make_world, cable):
    world = make_world("tcp2")
    world[1].begin("create", join_timeout=2)
    answer = world[0].do("create", interface="ib0")
    assert answer.code == "NOT_FOUND"
    assert f'no network interface is "ib0"; this machine has: ' in answer.error
    assert f"{cable.links[0]} {cable.address(0)}/24" in answer.error
    assert world[1].answer().code == "DEADLINE"


def test_the_loopback_is_told_to_no_other_host_though_it_is_named(make_world):
    world = make_world("tcp2")
    for rank in world.ranks:
        rank.begin("create", interface="lo", join_timeout=20)
    for rank in world.ranks:
        answer = rank.answer()
        assert answer.code == "NOT_FOUND"
        assert answer.ended - answer.began < patience(2)
        assert '"lo" is the loopback, by which a host reaches only itself' in answer.error
