// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/channel_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::instance {
namespace {

constexpr std::size_t kMaxName = 255;   // NAME_MAX
constexpr std::size_t kMaxPath = 3000;  // leaves room under PATH_MAX for where /opt/ml really is
constexpr std::size_t kNamed = 5;       // how many keys a message lists

std::string in_quotes(std::string_view key) {
  return "'" + to_valid_utf8(key) + "'";
}

std::string base_name(std::string_view key) {
  return std::string(key.substr(key.rfind('/') + 1));  // npos + 1 is 0
}

std::string why_no_path(std::string_view path) {
  if (path.empty()) {
    return "it has no name below the prefix";
  }
  if (path.size() > kMaxPath) {
    return "its path is longer than " + std::to_string(kMaxPath) + " bytes";
  }
  if (path.find('\0') != std::string_view::npos) {
    return "it holds a NUL";
  }
  for (const std::string_view part : split(path, '/')) {
    if (part.empty()) {
      return "it has an empty part ('//')";
    }
    if (part == "." || part == "..") {
      return "it has the part '" + std::string(part) + "'";
    }
    if (part.size() > kMaxName) {
      return "it has a part longer than 255 bytes";
    }
  }
  return {};
}

// A prefix that is itself the key of an object and of no folder.
const ChannelObject* single_object(std::string_view prefix,
                                   const std::vector<ChannelObject>& objects) {
  if (prefix.empty() || prefix.ends_with('/')) {
    return nullptr;
  }
  const ChannelObject* exact = nullptr;
  for (const ChannelObject& object : objects) {
    if (object.key == prefix) {
      exact = &object;
    } else if (object.key[prefix.size()] == '/') {
      return nullptr;
    }
  }
  return exact;
}

Error refused(const std::string& channel, const std::vector<std::string>& reasons) {
  std::string text = "channel " + channel + ": " + std::to_string(reasons.size()) +
                     (reasons.size() == 1 ? " object" : " objects") + " cannot become files: ";
  for (std::size_t i = 0; i < std::min(reasons.size(), kNamed); ++i) {
    text += (i == 0 ? "" : "; ") + reasons[i];
  }
  return Error{Code::kInvalidArgument, text + (reasons.size() > kNamed ? "; ..." : "")};
}

// The folders that the prefix reaches, for the warning about train and train2.
void warn_of_neighbours(const std::string& channel, std::string_view prefix,
                        const std::vector<ChannelObject>& objects, ChannelPlan& plan) {
  if (prefix.empty() || prefix.ends_with('/')) {
    return;
  }
  const std::size_t start = prefix.rfind('/') + 1;
  std::set<std::string> folders;
  for (const ChannelObject& object : objects) {
    const std::size_t slash = object.key.find('/', prefix.size());
    if (slash != std::string::npos) {
      folders.insert(object.key.substr(start, slash - start) + "/");
    }
  }
  if (folders.size() > 1) {
    const std::vector<std::string> names(folders.begin(), folders.end());
    plan.warnings.push_back("channel " + channel + ": the prefix '" + std::string(prefix) +
                            "' also matches other folders, all were taken: " + join(names, ", ") +
                            ". End it with '/' for one folder only.");
  }
}

struct Collected {
  std::vector<PlannedFile> files;
  std::vector<std::string> reasons;
};

void leave_out(const std::string& channel, std::string_view key, ChannelPlan& plan) {
  plan.left_out.emplace_back(key);
  plan.warnings.push_back("channel " + channel + ": the object " + in_quotes(key) +
                          " is left out, because other objects need a folder of that name.");
}

Collected collect(const std::string& channel, std::string_view prefix,
                  const std::vector<ChannelObject>& objects, ChannelPlan& plan) {
  Collected out;
  for (const ChannelObject& object : objects) {
    std::string_view key = object.key;
    if (key == prefix && !key.ends_with('/')) {
      leave_out(channel, key, plan);  // else it were the whole channel
      continue;
    }
    const bool folder = key.ends_with('/') && object.size == 0;
    if (folder && key.size() <= prefix.size() + 1) {
      continue;  // the prefix's own marker
    }
    if (folder) {
      key.remove_suffix(1);
    }
    Result<std::string> path = local_path(prefix, key);
    if (!path) {
      out.reasons.push_back(path.error().message);
    } else if (folder) {
      plan.directories.push_back(std::move(*path));
    } else {
      out.files.push_back({object.key, std::move(*path), object.size});
    }
  }
  return out;
}

// Takes files out that stand where another key needs a directory; two files at one path are an
// error, for neither may silently replace the other.
void resolve_conflicts(const std::string& channel, Collected& collected, ChannelPlan& plan) {
  std::set<std::string, std::less<>> directories(plan.directories.begin(), plan.directories.end());
  for (const PlannedFile& file : collected.files) {
    for (std::size_t at = file.path.find('/'); at != std::string::npos;
         at = file.path.find('/', at + 1)) {
      directories.insert(file.path.substr(0, at));
    }
  }
  std::map<std::string_view, std::string_view> taken;
  std::vector<PlannedFile> kept;
  for (const PlannedFile& file : collected.files) {
    if (directories.count(file.path) > 0) {
      leave_out(channel, file.key, plan);
      continue;
    }
    const auto [place, is_new] = taken.emplace(file.path, file.key);
    if (!is_new) {
      collected.reasons.push_back(in_quotes(file.key) + " (" + in_quotes(place->second) +
                                  " becomes the same file)");
      continue;
    }
    kept.push_back(file);
  }
  collected.files = std::move(kept);
}

}  // namespace

std::string left_out_remark(const std::string& channel, const std::vector<std::string>& keys) {
  if (keys.empty()) {
    return {};
  }
  std::vector<std::string> named;
  for (const std::string& key : keys) {
    if (named.size() == kNamed) {
      named.emplace_back("...");
      break;
    }
    named.push_back(in_quotes(key));
  }
  return "channel " + channel + " is without " + std::to_string(keys.size()) +
         (keys.size() == 1 ? " object" : " objects") +
         " whose name a folder has: " + join(named, ", ");
}

Result<std::string> local_path(std::string_view prefix, std::string_view key) {
  std::string_view path = key;
  if (prefix.empty() || prefix.ends_with('/')) {
    path.remove_prefix(prefix.size());
  } else if (key.size() > prefix.size() && key[prefix.size()] == '/') {
    path.remove_prefix(prefix.size() + 1);
  } else {
    path.remove_prefix(prefix.rfind('/') + 1);
  }
  if (const std::string why = why_no_path(path); !why.empty()) {
    return Error{Code::kInvalidArgument, in_quotes(key) + " (" + why + ")"};
  }
  return std::string(path);
}

Result<ChannelPlan> plan_channel(const std::string& channel, std::string_view prefix,
                                 const std::vector<ChannelObject>& objects, Shard shard) {
  ChannelPlan plan;
  if (const ChannelObject* single = single_object(prefix, objects)) {
    plan.files =
        shard_of<PlannedFile>({{single->key, base_name(single->key), single->size}}, shard);
    return plan;
  }
  warn_of_neighbours(channel, prefix, objects, plan);
  Collected collected = collect(channel, prefix, objects, plan);
  resolve_conflicts(channel, collected, plan);
  if (!collected.reasons.empty()) {
    return refused(channel, collected.reasons);
  }
  plan.files = shard_of(collected.files, shard);
  return plan;
}

}  // namespace trainyard::instance
