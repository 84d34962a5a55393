# SPDX-License-Identifier: Apache-2.0
"""One figure of a bench as an entry of its JSON file, with what it has to reach.

An entry has one main figure (`ours`) and may have more that belong to the same runs (`also`): the p99 beside
the rate, the memory beside the time. `target` bounds the figure itself, `target_ratio` the ratio to the peer.
"""
import statistics


def case(name, unit, ours, better="lower", peer=None, peer_name=None, target=None, target_ratio=None, also=(), note=None):
    """`ours` and `peer`: the figure of each run, in the order of the runs."""
    figure = statistics.median(ours)
    beside = statistics.median(peer) if peer else None
    ratio = None
    if beside is not None:
        ratio = beside / figure if better == "lower" else figure / beside
    entry = {"case": name, "unit": unit, "better": better, "ours": figure, "peer": beside,
             "peer_name": peer_name if peer else None, "ratio": ratio, "all": list(ours)}
    if peer:
        entry["all_of_peer"] = list(peer)
    for key, value in (("target", target), ("target_ratio", target_ratio), ("note", note), ("also", list(also))):
        if value:
            entry[key] = value
    return entry


def beside(what, unit, value, target=None, better="lower"):
    """A further figure of a case: bytes, milliseconds, a count."""
    return {"what": what, "unit": unit, "value": value, "target": target, "better": better}


def is_met(entry):
    """Whether all that an entry has to reach is reached; None when there is nothing to reach."""
    def reaches(value, target, better):
        return value >= target if better == "higher" else value <= target

    answers = []
    if entry.get("target") is not None:
        answers.append(reaches(entry["ours"], entry["target"], entry["better"]))
    if entry.get("target_ratio") is not None and entry["ratio"] is not None:
        answers += [ratio >= entry["target_ratio"] for ratio in entry.get("ratio_by_state", {"all": entry["ratio"]}).values()]
    answers += [reaches(more["value"], more["target"], more["better"]) for more in entry.get("also", ())
                if more["target"] is not None]
    return all(answers) if answers else None
