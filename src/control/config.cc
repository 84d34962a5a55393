// SPDX-License-Identifier: Apache-2.0
#include "control/config.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/text.h"

namespace trainyard::control {
namespace {

constexpr int kLeastInstances = 4;
constexpr int kMostInstances = 10'000;
constexpr std::string_view kTorch = "torch";

// AWS's deep-learning containers live in accounts of twelve digits, one per region and partition.
constexpr std::string_view kTorchImages[] = {
    "trainyard/pytorch", "pytorch", "trainyard-pytorch",
    "############.dkr.ecr.*.amazonaws.com*/pytorch-training",
    "############.dkr.ecr.*.amazonaws.com*/huggingface-pytorch-training"};

bool is_of(char pattern, char c) {
  return pattern == '#' ? c >= '0' && c <= '9' : pattern == c;
}

// After a mismatch only the last '*' takes more text: an earlier one could gain nothing by it, and
// the time stays below the product of the lengths.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t read = 0;
  std::size_t star = std::string_view::npos;
  std::size_t taken = 0;  // where the text behind the star begins
  while (read < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      taken = read;
    } else if (at < pattern.size() && is_of(pattern[at], text[read])) {
      ++at;
      ++read;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      read = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

std::string_view without_tag(std::string_view image) {
  image = image.substr(0, image.find('@'));
  const std::size_t slash = image.rfind('/');
  const std::size_t colon = image.rfind(':');
  const bool is_tag =
      colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash);
  return is_tag ? image.substr(0, colon) : image;
}

// The numbers for which the pattern names something that is there.
std::vector<std::string> devices_of_machine(const std::string& pattern) {
  const Path path(pattern);
  const std::string name = path.filename().string();
  const std::string before = name.substr(0, name.find('*'));
  const std::string after = name.substr(name.find('*') + 1);
  std::vector<std::int64_t> numbers;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(path.parent_path(), failed), end;
       !failed && entry != end; entry.increment(failed)) {
    const std::string found = entry->path().filename().string();
    if (found.size() > before.size() + after.size() && found.starts_with(before) &&
        found.ends_with(after)) {
      const auto number = parse_int(std::string_view(found).substr(
          before.size(), found.size() - before.size() - after.size()));
      if (number && *number >= 0) {
        numbers.push_back(*number);
      }
    }
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> devices;
  devices.reserve(numbers.size());
  for (const std::int64_t number : numbers) {
    devices.push_back(std::to_string(number));
  }
  return devices;
}

bool is_device_pattern(const std::string& pattern) {
  const std::string name = Path(pattern).filename().string();
  return pattern.starts_with('/') && std::count(pattern.begin(), pattern.end(), '*') == 1 &&
         name.find('*') != std::string::npos;
}

std::string environments_root() {
  if (const char* root = std::getenv("TRAINYARD_ENVS"); root != nullptr && *root != '\0') {
    return root;
  }
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return fmt::format("{}/trainyard/env", cache);
  }
  const char* home = std::getenv("HOME");
  return fmt::format("{}/.cache/trainyard/env", home == nullptr ? "/root" : home);
}

Error fault_at(const YAML::Mark& mark, std::string_view text) {
  const std::string line = mark.is_null() ? "" : fmt::format("line {}: ", mark.line + 1);
  return {.code = Code::kInvalidArgument, .message = fmt::format("config.yaml: {}{}", line, text)};
}

std::string shown(const YAML::Node& node) {
  return node.IsScalar()     ? fmt::format("'{}'", node.Scalar())
         : node.IsSequence() ? "a list"
         : node.IsMap()      ? "a mapping"
                             : "nothing";
}

// "line 2: instances is a number from 1 to 10000, not 'many'".
Error is_wrong(const YAML::Node& node, std::string_view key, std::string_view wanted) {
  return fault_at(node.Mark(), fmt::format("{} is {}, not {}", key, wanted, shown(node)));
}

template <typename T>
Result<T> read_value(const YAML::Node& node, std::string_view key, std::string_view wanted) {
  T value{};
  if (!YAML::convert<T>::decode(node, value)) {
    return is_wrong(node, key, wanted);
  }
  return value;
}

Result<std::vector<std::string>> read_words(const YAML::Node& node, std::string_view key,
                                            std::string_view wanted) {
  if (!node.IsSequence()) {
    return is_wrong(node, key, wanted);
  }
  std::vector<std::string> words;
  for (const YAML::Node& item : node) {
    YARD_TRY(std::string word, read_value<std::string>(item, key, wanted));
    words.push_back(std::move(word));
  }
  return words;
}

Result<int> read_number(const YAML::Node& node, std::string_view key, std::int64_t least,
                        std::int64_t most) {
  const std::string wanted = fmt::format("a number from {} to {}", least, most);
  YARD_TRY(const int value, read_value<int>(node, key, wanted));
  if (value < least || value > most) {
    return is_wrong(node, key, wanted);
  }
  return value;
}

Result<void> only_keys(const YAML::Node& node, std::string_view what,
                       const std::set<std::string>& known) {
  if (!node.IsMap()) {
    return is_wrong(node, what, "a mapping of keys to values");
  }
  for (const auto& item : node) {
    YARD_TRY(const auto key, read_value<std::string>(item.first, "a key", "a word"));
    if (!known.contains(key)) {
      const std::vector<std::string> names(known.begin(), known.end());
      return fault_at(item.first.Mark(),
                      fmt::format("unknown key '{}'; known: {}", key, join(names, ", ")));
    }
  }
  return {};
}

Result<void> read_capacity(const YAML::Node& node, Machine& machine) {
  YARD_TRY(only_keys(node, "capacity", {"instances", "gpus", "gpu_device"}));
  if (const YAML::Node instances = node["instances"]) {
    YARD_TRY(machine.instances, read_number(instances, "instances", 1, kMostInstances));
  }
  if (const YAML::Node device = node["gpu_device"]) {
    constexpr std::string_view kWanted = "an absolute path with one '*' in its last part";
    YARD_TRY(machine.gpu_device, read_value<std::string>(device, "gpu_device", kWanted));
    if (!is_device_pattern(machine.gpu_device)) {
      return is_wrong(device, "gpu_device", kWanted);
    }
    machine.gpus = devices_of_machine(machine.gpu_device);
  }
  if (const YAML::Node gpus = node["gpus"]) {
    YARD_TRY(machine.gpus, read_words(gpus, "gpus", "a list of numbers"));
    const std::set<std::string> distinct(machine.gpus.begin(), machine.gpus.end());
    if (distinct.size() != machine.gpus.size()) {
      return fault_at(gpus.Mark(), "a GPU is named twice");
    }
  }
  return {};
}

Result<void> read_images(const YAML::Node& node, Config& config) {
  if (!node.IsMap()) {
    return is_wrong(node, "images", "a mapping of patterns to environments");
  }
  std::vector<ImageRule> rules;
  for (const auto& item : node) {
    ImageRule rule;
    YARD_TRY(rule.pattern, read_value<std::string>(item.first, "an image's pattern", "a word"));
    YARD_TRY(rule.environment,
             read_value<std::string>(item.second, rule.pattern, "the name of an environment"));
    if (!config.environments.contains(rule.environment)) {
      return fault_at(item.second.Mark(),
                      fmt::format("no environment is named '{}'", rule.environment));
    }
    rules.push_back(std::move(rule));
  }
  config.images.insert(config.images.begin(), rules.begin(), rules.end());
  return {};
}

Result<void> read_environments(const YAML::Node& node, Config& config) {
  if (!node.IsMap()) {
    return is_wrong(node, "environments", "a mapping of names to directories");
  }
  for (const auto& item : node) {
    constexpr std::string_view kWanted = "the absolute path of a directory";
    YARD_TRY(const auto name,
             read_value<std::string>(item.first, "an environment's name", "a word"));
    YARD_TRY(const auto directory, read_value<std::string>(item.second, name, kWanted));
    if (!directory.starts_with('/')) {
      return is_wrong(item.second, name, kWanted);
    }
    config.environments[name] = directory;
  }
  return {};
}

// Into `out`, which stays as it is when `root` has no such key.
Result<void> read_seconds(const YAML::Node& root, const char* key, std::chrono::seconds least,
                          std::chrono::seconds most, std::chrono::milliseconds& out) {
  if (const YAML::Node node = root[key]) {
    YARD_TRY(const int value, read_number(node, key, least.count(), most.count()));
    out = std::chrono::seconds(value);
  }
  return {};
}

Result<Config> read_config(const YAML::Node& root, Config config) {
  if (!root || root.IsNull()) {
    return config;
  }
  YARD_TRY(only_keys(root, "it",
                     {"capacity", "images", "environments", "stop_grace_seconds",
                      "upload_limit_seconds", "orphan_limit_seconds"}));
  if (const YAML::Node capacity = root["capacity"]) {
    YARD_TRY(read_capacity(capacity, config.machine));
  }
  if (const YAML::Node environments = root["environments"]) {
    YARD_TRY(read_environments(environments, config));
  }
  if (const YAML::Node images = root["images"]) {
    YARD_TRY(read_images(images, config));
  }
  using std::chrono::hours;
  using std::chrono::seconds;
  Limits& limits = config.limits;
  YARD_TRY(read_seconds(root, "stop_grace_seconds", seconds(0), hours(24), limits.stop_grace));
  YARD_TRY(read_seconds(root, "upload_limit_seconds", seconds(1), hours(24), limits.upload));
  YARD_TRY(read_seconds(root, "orphan_limit_seconds", seconds(60), hours(24 * 30), limits.orphan));
  return config;
}

}  // namespace

Config default_config() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  Config config{.machine = {.instances = std::max(kLeastInstances, cores)}};
  config.machine.gpus = devices_of_machine(config.machine.gpu_device);
  for (const std::string_view image : kTorchImages) {
    config.images.push_back({std::string(image), std::string(kTorch)});
  }
  config.environments[std::string(kTorch)] = fmt::format("{}/{}", environments_root(), kTorch);
  return config;
}

Result<Config> parse_config(std::string_view text, Config defaults) {
  try {
    return read_config(YAML::Load(std::string(text)), std::move(defaults));
  } catch (const YAML::Exception& exception) {
    return fault_at(exception.mark, exception.msg);
  }
}

Result<Config> load_config(const Path& file) {
  const auto text = read_file(file);
  if (!text && text.error().code == Code::kNotFound) {
    return default_config();
  }
  if (!text) {
    return text.error();
  }
  return parse_config(*text, default_config());
}

Result<std::string> resolve_image(const Config& config, std::string_view image) {
  std::vector<std::string> known;
  for (const ImageRule& rule : config.images) {
    if (matches(rule.pattern, image) || matches(rule.pattern, without_tag(image))) {
      return rule.environment;
    }
    known.push_back(rule.pattern);
  }
  return Error{.code = Code::kInvalidArgument,
               .message = fmt::format(
                   "The training image '{}' has no environment on this server. Known images, with "
                   "any tag: {}. Others are mapped under 'images' in config.yaml.",
                   image, join(known, ", "))};
}

Result<std::string> environment_directory(const Config& config, const std::string& name) {
  const auto found = config.environments.find(name);
  if (found == config.environments.end()) {
    return Error{.code = Code::kInvalidArgument,
                 .message = fmt::format("No environment is named '{}'.", name)};
  }
  // Instances see the directory at its own path, which the scripts in it name in their first lines.
  std::error_code failed;
  const Path directory = std::filesystem::canonical(found->second, failed);
  if (failed || !std::filesystem::is_directory(directory, failed)) {
    return Error{
        .code = Code::kInvalidArgument,
        .message = fmt::format("The environment '{}' is not installed ({} is missing): run "
                               "./yard setup.",
                               name, found->second)};
  }
  return directory.string();
}

}  // namespace trainyard::control
