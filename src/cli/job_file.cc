// SPDX-License-Identifier: Apache-2.0
#include "cli/job_file.h"

#include <algorithm>

#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "api/model.h"
#include "base/check.h"
#include "base/text.h"
#include "cli/nearest.h"

namespace trainyard::cli {
namespace {

using Json = nlohmann::json;
using api::Shape;
using api::ShapeKind;

Error fault(const YAML::Node& node, const std::string& path, const std::string& what) {
  const YAML::Mark mark = node.Mark();
  return {.code = Code::kInvalidArgument,
          .message = "line " + std::to_string(mark.line + 1) + ": " + path + " " + what};
}

std::string below_path(const std::string& path, const std::string& name) {
  std::string below = path;
  below += below.empty() ? "" : ".";
  below += name;
  return below;
}

// Plain scalars by the core schema of YAML 1.2: no "yes", no octal by a leading zero.
Json guess(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") {  // was quoted
    return text;
  }
  const std::string word = lower(text);
  if (word == "true" || word == "false") {
    return word == "true";
  }
  const bool leading_zero =
      text.size() > 1 && text[0] == '0' && text.find('.') == std::string::npos;
  if (const auto number = parse_int(text); number && !leading_zero) {
    return *number;
  }
  const bool looks_numeric =
      text.find_first_not_of("+-.0123456789eE") == std::string::npos && !leading_zero;
  if (const auto number = parse_double(text); number && looks_numeric) {
    return *number;
  }
  return text;
}

constexpr int kMaxDepth = 64;

// The pairs of a mapping; refuses keys that are no text or that come twice.
template <typename Convert>
Result<Json> convert_mapping(const YAML::Node& node, const std::string& path, Convert convert) {
  Json object = Json::object();
  for (const auto& pair : node) {
    if (!pair.first.IsScalar()) {
      return fault(pair.first, path, "has a key that is not text");
    }
    const std::string key = pair.first.Scalar();
    const std::string below = below_path(path, key);
    if (object.contains(key)) {
      return fault(pair.first, below, "is given twice");
    }
    Result<Json> value = convert(pair.first, pair.second, below);
    if (!value) {
      return std::move(value).error();
    }
    object[key] = *std::move(value);
  }
  return object;
}

// What does not fit its shape, and the inside of structured hyperparameters.
Result<Json> convert_untyped(const YAML::Node& node, const std::string& path, int depth) {
  if (depth > kMaxDepth) {
    return fault(node, path, "is nested too deeply");
  }
  if (node.IsNull()) {
    return Json(nullptr);
  }
  if (node.IsScalar()) {
    return guess(node);
  }
  if (node.IsMap()) {
    return convert_mapping(
        node, path, [&](const YAML::Node&, const YAML::Node& value, const std::string& below) {
          return convert_untyped(value, below, depth + 1);
        });
  }
  Json list = Json::array();
  for (const YAML::Node& item : node) {
    YARD_TRY(Json value, convert_untyped(item, path, depth + 1));
    list.push_back(std::move(value));
  }
  return list;
}

// "is unknown; did you mean 'CheckpointConfig'?". The server ignores what it does not know, as AWS
// does; a person would then train without it.
std::string unknown_member(const Shape& shape, std::string_view name) {
  std::vector<std::string_view> names;
  for (const api::Member& member : shape.members) {
    names.push_back(member.name);
  }
  const std::string hint = did_you_mean(name, names);
  if (!hint.empty()) {
    return "is unknown" + hint;
  }
  std::string known;
  for (const std::string_view one : names) {
    known += (known.empty() ? "" : ", ") + std::string(one);
  }
  return "is unknown; known are " + known;
}

const api::Member* find_member(const Shape& shape, std::string_view name) {
  const auto found = std::ranges::find(shape.members, name, &api::Member::name);
  return found == shape.members.end() ? nullptr : &*found;
}

Result<Json> convert(const YAML::Node& node, const Shape& shape, const std::string& path);

Result<Json> convert_structure(const YAML::Node& node, const Shape& shape,
                               const std::string& path) {
  const auto convert_member = [&](const YAML::Node& key, const YAML::Node& value,
                                  const std::string& below) -> Result<Json> {
    const api::Member* member = find_member(shape, key.Scalar());
    if (member == nullptr) {
      return fault(key, below, unknown_member(shape, key.Scalar()));
    }
    return convert(value, api::shapes()[member->shape], below);
  };
  return convert_mapping(node, path, convert_member);
}

// A value of HyperParameters or Environment.
Result<Json> convert_map_value(const YAML::Node& node, const Shape& shape,
                               const std::string& path) {
  if (node.IsNull()) {
    return fault(node, path, "has no value: write \"\" for an empty text, \"null\" for the word");
  }
  if (shape.kind == ShapeKind::kString && !node.IsScalar()) {
    YARD_TRY(const Json value, convert_untyped(node, path, 0));
    return Json(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return convert(node, shape, path);
}

// What does not fit its shape is passed on as it stands: the server says it better.
Result<Json> convert(const YAML::Node& node, const Shape& shape, const std::string& path) {
  if (node.IsNull()) {
    return Json(nullptr);
  }
  if (node.IsMap() && shape.kind == ShapeKind::kStructure) {
    return convert_structure(node, shape, path);
  }
  if (node.IsMap() && shape.kind == ShapeKind::kMap) {
    const Shape& item = api::shapes()[shape.item];
    return convert_mapping(
        node, path, [&](const YAML::Node&, const YAML::Node& value, const std::string& below) {
          return convert_map_value(value, item, below);
        });
  }
  if (node.IsSequence() && shape.kind == ShapeKind::kList) {
    Json list = Json::array();
    for (const YAML::Node& item : node) {
      const std::string below = path + "[" + std::to_string(list.size()) + "]";
      YARD_TRY(Json value, convert(item, api::shapes()[shape.item], below));
      list.push_back(std::move(value));
    }
    return list;
  }
  if (node.IsScalar() && shape.kind == ShapeKind::kString) {
    return Json(node.Scalar());
  }
  return convert_untyped(node, path, 0);
}

Result<void> refuse_unknown(const Json& value, const Shape& shape, const std::string& path) {
  if (value.is_object() && shape.kind == ShapeKind::kStructure) {
    for (const auto& [name, below] : value.items()) {
      const std::string place = below_path(path, name);
      const api::Member* member = find_member(shape, name);
      if (member == nullptr) {
        return Error{.code = Code::kInvalidArgument,
                     .message = place + " " + unknown_member(shape, name)};
      }
      YARD_TRY(refuse_unknown(below, api::shapes()[member->shape], place));
    }
  } else if (value.is_array() && shape.kind == ShapeKind::kList) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      YARD_TRY(refuse_unknown(value[i], api::shapes()[shape.item],
                              path + "[" + std::to_string(i) + "]"));
    }
  } else if (value.is_object() && shape.kind == ShapeKind::kMap) {
    for (const auto& [key, below] : value.items()) {
      YARD_TRY(refuse_unknown(below, api::shapes()[shape.item], below_path(path, key)));
    }
  }
  return {};
}

const Shape& request_shape() {
  const api::Operation* operation = api::find_operation("sagemaker", "CreateTrainingJob");
  YARD_CHECK(operation != nullptr, "CreateTrainingJob is in the model");
  return api::shapes()[operation->input];
}

Result<Json> parse_json(std::string_view text) {
  std::string why;
  // The one exception of the JSON library that we let happen: it knows line and column.
  try {
    Json job = Json::parse(text);
    if (job.is_object()) {
      YARD_TRY(refuse_unknown(job, request_shape(), ""));
      return job;
    }
    why = "it holds no object";
  } catch (const Json::exception& error) {
    why = error.what();
  }
  return Error{.code = Code::kInvalidArgument, .message = why};
}

Result<Json> parse_yaml(std::string_view text) {
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) {
      return Error{.code = Code::kInvalidArgument,
                   .message = "it holds no members of CreateTrainingJob"};
    }
    return convert_structure(root, request_shape(), "");
  } catch (const YAML::Exception& error) {
    return Error{.code = Code::kInvalidArgument, .message = error.what()};
  }
}

}  // namespace

Result<Json> parse_job(std::string_view text, bool is_json) {
  return is_json ? parse_json(text) : parse_yaml(text);
}

std::string_view sample_job() {
  return R"(TrainingJobName: demo-1                # left out: made from the image and the time
RoleArn: arn:aws:iam::123456789012:role/trainyard
AlgorithmSpecification:
  TrainingImage: trainyard/pytorch
  TrainingInputMode: File
HyperParameters:
  sagemaker_submit_directory: s3://demo/code.tar.gz
  sagemaker_program: train.py
  sagemaker_torch_distributed_enabled: true   # ranks as torchrun sets them
  lr: 0.001                                   # --lr 0.001 and SM_HP_LR
Environment:
  OMP_NUM_THREADS: 2
InputDataConfig:
  - ChannelName: training                     # at SM_CHANNEL_TRAINING
    DataSource:
      S3DataSource:
        S3DataType: S3Prefix
        S3Uri: s3://demo/data/
        S3DataDistributionType: ShardedByS3Key
OutputDataConfig:
  S3OutputPath: s3://demo/output              # the model: .../demo-1/output/model.tar.gz
ResourceConfig:
  InstanceType: ml.c5.xlarge
  InstanceCount: 2
  VolumeSizeInGB: 10
StoppingCondition:
  MaxRuntimeInSeconds: 3600
)";
}

Result<void> set_hyperparameters(Json& job, const std::vector<std::string>& pairs) {
  for (const std::string& pair : pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{.code = Code::kInvalidArgument,
                   .message = "--hyperparameter takes key=value, not '" + pair + "'"};
    }
    Json& all = job["HyperParameters"];
    if (!all.is_object()) {
      all = Json::object();
    }
    all[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return {};
}

std::string make_job_name(std::string_view image, WallTime now) {
  constexpr std::size_t kMaxBase = 39;  // 63 less the time and its hyphen
  const std::string_view last = image.substr(image.rfind('/') + 1);
  std::string base;
  for (const char c : last.substr(0, last.find_first_of(":@"))) {
    const bool legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (legal || !base.empty()) {
      base += legal ? c : '-';
    }
  }
  base.resize(std::min(base.size(), kMaxBase));
  while (base.ends_with('-')) {
    base.pop_back();
  }
  // "2026-11-29T20:12:05.123Z" without its marks: 23 characters.
  std::string time = to_iso8601(now);
  time.pop_back();
  std::ranges::replace_if(
      time, [](char c) { return c == 'T' || c == ':' || c == '.'; }, '-');
  return (base.empty() ? "job" : base) + "-" + time;
}

}  // namespace trainyard::cli
