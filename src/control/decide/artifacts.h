// SPDX-License-Identifier: Apache-2.0
// Where a job's model and output go, decided for all its instances at once, and the joining of what
// several of them sent. A lone holder of files writes the final archive itself. Several write one
// gzip member each, which lie under <output>/.parts/ until they are joined; concatenated in host
// order, with the end blocks in the last one, they are one valid .tar.gz (RFC 1952 §2.2: a gzip
// file is a series of members). No host sees the files of another: that several have files of one
// name is found here, and said.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/job/job.h"
#include "s3/object_store.h"

namespace trainyard::control {

struct InstanceUpload {
  std::optional<wire::ArtifactUpload> model = {};
  std::optional<wire::ArtifactUpload> output = {};
};

struct ArtifactPlan {
  std::map<std::string, InstanceUpload> uploads;  // by host; empty ones for those without files
  std::vector<Merge> merges;
  std::string warning = {};  // of files of one name from several hosts; empty: none are known
};

// `instances` are those that can still upload. The model of a job whose program failed is not kept.
ArtifactPlan plan_artifacts(const Job& job, const std::vector<const InstanceFacts*>& instances,
                            Secondary outcome);

// Where the parts of all attempts lie: "s3://bucket/prefix/<job>/output/.parts/<created>/". No
// other job of this name has the same.
std::string all_parts_place(const Job& job);
// Where those of the current attempt do: in "<epoch>/" there. So a part that an earlier attempt has
// sent is never taken for one of this.
std::string parts_place(const Job& job);

// Whether a join that failed for this may work later: the store is full, or does not answer. That
// something is missing or damaged stays so.
bool may_join_later(const Error& error);

// Joins and removes the parts; streams, so memory does not grow with their size. May be repeated:
// when parts are missing and the target is not older than the rest, an earlier run did it.
// Otherwise a missing part is kNotFound, or is left out when `may_lack_parts` (a failed job lost an
// instance).
Result<void> join_parts(s3::ObjectStore& objects, const Merge& merge, bool may_lack_parts);

}  // namespace trainyard::control
