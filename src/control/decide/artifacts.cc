// SPDX-License-Identifier: Apache-2.0
#include "control/decide/artifacts.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/encoding.h"

namespace trainyard::control {
namespace {

using Slot = std::optional<wire::ArtifactUpload> InstanceUpload::*;

using Instances = std::vector<const InstanceFacts*>;
using Files = std::vector<std::string> wire::Exit::*;

// A file name that several hosts have, and how many more there are.
struct Clash {
  std::string name;
  std::vector<std::string> hosts;
  std::size_t more = 0;
};

std::optional<Clash> find_clash(const Instances& instances, const std::vector<std::string>& holders,
                                Files files) {
  std::map<std::string, std::vector<std::string>> hosts_of;
  for (const std::string& holder : holders) {
    const auto found = std::find_if(instances.begin(), instances.end(),
                                    [&](const auto* instance) { return instance->host == holder; });
    const wire::Exit exit = (*found)->exit.value_or(wire::Exit());
    for (const std::string& name : exit.*files) {
      hosts_of[name].push_back(holder);
    }
  }
  std::erase_if(hosts_of, [](const auto& item) { return item.second.size() < 2; });
  if (hosts_of.empty()) {
    return std::nullopt;
  }
  const auto& [name, hosts] = *hosts_of.begin();
  return Clash{.name = name, .hosts = hosts, .more = hosts_of.size() - 1};
}

std::string text_of(const Clash& clash, std::string_view kind, bool is_archive) {
  constexpr std::size_t kShownName = 100;
  std::string text =
      fmt::format("\"{}\" of /opt/ml/{} comes from {}", utf8_prefix(clash.name, kShownName),
                  kind == "model" ? "model" : "output/data", some_of(clash.hosts));
  if (clash.more > 0) {
    text += fmt::format(", and {} more name{} from several hosts", clash.more,
                        clash.more == 1 ? "" : "s");
  }
  return text + (is_archive ? fmt::format(": {}.tar.gz holds each, and who unpacks it gets that "
                                          "of {}",
                                          kind, clash.hosts.back())
                            : ": only the one that is sent last is kept");
}

void plan_one(const Job& job, std::string_view name, const std::vector<std::string>& holders,
              Slot slot, ArtifactPlan& plan) {
  const std::string prefix = artifact_prefix(job);
  if (!is_compressed(job)) {
    for (const std::string& host : holders) {
      plan.uploads[host].*slot =
          wire::ArtifactUpload{.s3_uri = fmt::format("{}/{}/", prefix, name), .form = "files"};
    }
    return;
  }
  const std::string target = fmt::format("{}/{}.tar.gz", prefix, name);
  if (holders.size() == 1) {
    plan.uploads[holders.front()].*slot = wire::ArtifactUpload{.s3_uri = target, .form = "whole"};
    return;
  }
  Merge merge{.parts = {}, .target = target};
  for (const std::string& host : holders) {
    const std::string part = fmt::format("{}{}/{}.tar.gz", parts_place(job), host, name);
    const bool is_last = host == holders.back();
    plan.uploads[host].*slot =
        wire::ArtifactUpload{.s3_uri = part, .form = is_last ? "whole" : "member"};
    merge.parts.push_back(part);
  }
  if (!merge.parts.empty()) {
    plan.merges.push_back(std::move(merge));
  }
}

// In the job's StatusMessage and, by one of the hosts, in its log.
void warn_of(const Job& job, std::string_view kind, const std::optional<Clash>& clash, Slot slot,
             ArtifactPlan& plan) {
  if (!clash) {
    return;
  }
  const std::string text = text_of(*clash, kind, is_compressed(job));
  plan.warning += (plan.warning.empty() ? "" : "; ") + text;
  if (auto& upload = plan.uploads[clash->hosts.back()].*slot) {
    upload->note = "Warning: " + text +
                   ". Save it on one host only, or under a name of each host's own "
                   "(SM_CURRENT_HOST, RANK).";
  }
}

struct OpenParts {
  std::vector<std::unique_ptr<s3::ObjectReader>> readers;
  bool complete = true;
};

Result<OpenParts> open_parts(s3::ObjectStore& objects, const Merge& merge) {
  OpenParts open;
  for (const std::string& part : merge.parts) {
    YARD_TRY(const s3::Uri uri, s3::parse_uri(part));
    auto reader = objects.get(uri.bucket, uri.key, std::nullopt);
    if (reader) {
      open.readers.push_back(std::move(*reader));
    } else if (reader.error().code == Code::kNotFound) {
      open.complete = false;
    } else {
      return reader.error().in("opening " + part);
    }
  }
  return open;
}

// Whether an earlier run wrote it, of the parts that are left, too. One that is older than they are
// is of an earlier job of this name.
bool is_joined_from(const OpenParts& open, const s3::ObjectInfo& target) {
  return std::all_of(open.readers.begin(), open.readers.end(), [&](const auto& reader) {
    return reader->info().last_modified <= target.last_modified;
  });
}

// One stream over all readers, in order.
s3::ByteSource concatenation(std::vector<std::unique_ptr<s3::ObjectReader>>& readers) {
  return [&readers, at = std::size_t{0}](std::span<std::byte> out) mutable -> Result<std::size_t> {
    while (at < readers.size()) {
      YARD_TRY(const std::size_t count, readers[at]->read(out));
      if (count > 0) {
        return count;
      }
      ++at;
    }
    return std::size_t{0};
  };
}

}  // namespace

ArtifactPlan plan_artifacts(const Job& job, const std::vector<const InstanceFacts*>& instances,
                            Secondary outcome) {
  ArtifactPlan plan;
  std::vector<std::string> models;
  std::vector<std::string> outputs;
  for (const InstanceFacts* instance : instances) {
    plan.uploads[instance->host];
    if (instance->exit && instance->exit->has_model && outcome != Secondary::kFailed) {
      models.push_back(instance->host);
    }
    if (instance->exit && instance->exit->has_output) {
      outputs.push_back(instance->host);
    }
  }
  std::sort(models.begin(), models.end());
  std::sort(outputs.begin(), outputs.end());
  plan_one(job, "model", models, &InstanceUpload::model, plan);
  plan_one(job, "output", outputs, &InstanceUpload::output, plan);
  warn_of(job, "model", find_clash(instances, models, &wire::Exit::model_files),
          &InstanceUpload::model, plan);
  warn_of(job, "output", find_clash(instances, outputs, &wire::Exit::output_files),
          &InstanceUpload::output, plan);
  return plan;
}

std::string all_parts_place(const Job& job) {
  return fmt::format("{}/.parts/{}/", artifact_prefix(job), job.created.time_since_epoch().count());
}

std::string parts_place(const Job& job) {
  return fmt::format("{}{}/", all_parts_place(job), job.epoch);
}

bool may_join_later(const Error& error) {
  switch (error.code) {
    case Code::kExhausted:
    case Code::kUnavailable:
    case Code::kDeadline:
    case Code::kCancelled:
    case Code::kConflict:  // a part was replaced while it was read
    case Code::kInternal:
      return true;
    default:
      return false;
  }
}

Result<void> join_parts(s3::ObjectStore& objects, const Merge& merge, bool may_lack_parts) {
  YARD_TRY(const s3::Uri target, s3::parse_uri(merge.target));
  YARD_TRY(OpenParts open, open_parts(objects, merge));
  const auto joined = objects.head(target.bucket, target.key);
  const bool done_before = !open.complete && joined && is_joined_from(open, *joined);
  if (!open.complete && !done_before && !may_lack_parts) {
    return Error{.code = Code::kNotFound, .message = "a part of " + merge.target + " is missing"};
  }
  if (!done_before && !open.readers.empty()) {
    const s3::PutOptions options{.content_type = "application/x-tar"};
    YARD_TRY(objects.put(target.bucket, target.key, concatenation(open.readers), options));
  }
  for (const std::string& part : merge.parts) {
    YARD_TRY(const s3::Uri uri, s3::parse_uri(part));
    YARD_TRY(objects.remove(uri.bucket, uri.key));
  }
  return {};
}

}  // namespace trainyard::control
