// SPDX-License-Identifier: Apache-2.0
#include "api/query.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "api/model.h"
#include "api/timestamps.h"
#include "base/encoding.h"
#include "base/text.h"
#include "formats/json.h"
#include "formats/xml_text.h"

namespace trainyard::api {
namespace {

using nlohmann::json;

constexpr std::string_view kEc2 = "ec2";

// Names are looked up by prefix, so what a client nests deeper than the model costs nothing.
using Form = std::map<std::string, std::string, std::less<>>;

// A form may escape any byte, and what comes out of here is JSON, which is text. Of a value that
// cannot be decoded nothing is left.
std::string decoded_text(std::string_view escaped) {
  std::string text = form_decode(escaped).value_or("");
  return is_utf8(text) ? text : to_valid_utf8(text);
}

Form parse_form(std::string_view text) {
  Form form;
  for (const std::string_view pair : split(text, '&')) {
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    form.emplace(decoded_text(pair.substr(0, equals)), decoded_text(value));
  }
  return form;
}

bool has_under(const Form& form, const std::string& prefix) {
  const auto at = form.lower_bound(prefix + ".");
  return form.contains(prefix) || (at != form.end() && at->first.starts_with(prefix + "."));
}

json read_scalar(const Shape& shape, const std::string& text) {
  switch (shape.kind) {
    case ShapeKind::kBoolean:
      return text == "true" || text == "false" ? json(text == "true") : json(text);
    case ShapeKind::kInteger:
    case ShapeKind::kLong: {
      const Result<std::int64_t> number = parse_int(text);
      return number ? json(*number) : json(text);
    }
    case ShapeKind::kFloat: {
      const Result<double> number = parse_double(text);
      return number ? json(*number) : json(text);
    }
    case ShapeKind::kTimestamp: {
      const Result<WallTime> time = parse_iso8601(text);
      return time ? to_timestamp(*time) : json(text);
    }
    default:
      return text;
  }
}

json read_shape(const Form& form, const Shape& shape, const std::string& prefix);

json read_structure(const Form& form, const Shape& shape, const std::string& prefix) {
  json out = json::object();
  for (const Member& member : shape.members) {
    const std::string name =
        prefix.empty() ? std::string(member.name) : prefix + "." + std::string(member.name);
    if (has_under(form, name)) {
      json value = read_shape(form, shapes()[member.shape], name);
      if (!value.is_null()) {
        out[std::string(member.name)] = std::move(value);
      }
    }
  }
  return out;
}

json read_list(const Form& form, const Shape& shape, const std::string& prefix) {
  json out = json::array();
  for (std::size_t i = 1;; ++i) {
    const std::string name = prefix + ".member." + std::to_string(i);
    if (!has_under(form, name)) {
      return out;
    }
    out.push_back(read_shape(form, shapes()[shape.item], name));
  }
}

json read_map(const Form& form, const Shape& shape, const std::string& prefix) {
  json out = json::object();
  for (std::size_t i = 1;; ++i) {
    const std::string name = prefix + ".entry." + std::to_string(i);
    const auto key = form.find(name + ".key");
    if (key == form.end()) {
      return out;
    }
    out[key->second] = read_shape(form, shapes()[shape.item], name + ".value");
  }
}

json read_shape(const Form& form, const Shape& shape, const std::string& prefix) {
  switch (shape.kind) {
    case ShapeKind::kStructure:
      return read_structure(form, shape, prefix);
    case ShapeKind::kList:
      return read_list(form, shape, prefix);
    case ShapeKind::kMap:
      return read_map(form, shape, prefix);
    default: {
      const auto found = form.find(prefix);
      return found == form.end() ? json() : read_scalar(shape, found->second);
    }
  }
}

std::string tagged(std::string_view name, std::string_view content) {
  std::string out;
  out.append("<").append(name).append(">").append(content);
  return out.append("</").append(name).append(">");
}

std::string write_shape(const Shape& shape, const json& value);

std::string write_structure(const Shape& shape, const json& value) {
  std::string out;
  for (const Member& member : shape.members) {
    if (const auto found = value.find(member.name); found != value.end() && !found->is_null()) {
      out += tagged(member.name, write_shape(shapes()[member.shape], *found));
    }
  }
  return out;
}

std::string write_map(const Shape& shape, const json& value) {
  std::string out;
  for (const auto& [key, content] : value.items()) {
    out += tagged("entry", tagged("key", xml_text(key)) +
                               tagged("value", write_shape(shapes()[shape.item], content)));
  }
  return out;
}

std::string write_shape(const Shape& shape, const json& value) {
  switch (shape.kind) {
    case ShapeKind::kStructure:
      return write_structure(shape, value);
    case ShapeKind::kList: {
      std::string out;
      for (const json& item : value) {
        out += tagged("member", write_shape(shapes()[shape.item], item));
      }
      return out;
    }
    case ShapeKind::kMap:
      return write_map(shape, value);
    case ShapeKind::kTimestamp:
      return to_iso8601(from_timestamp(value).value_or(WallTime()));
    default:
      return xml_text(value.is_string() ? value.get<std::string>() : dump_json(value));
  }
}

// Empty for a service that we do not have: its name may be anything that a stranger sends.
std::string namespace_of(std::string_view service) {
  for (const Service& known : services()) {
    if (known.name == service) {
      return " xmlns=\"https://" + std::string(service) + ".amazonaws.com/doc/" +
             std::string(known.api_version) + "/\"";
    }
  }
  return "";
}

}  // namespace

std::string form_value(std::string_view form, std::string_view name) {
  for (const std::string_view pair : split(form, '&')) {
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) {
      return form_decode(pair.substr(name.size() + 1)).value_or("");
    }
  }
  return "";
}

json read_query(std::string_view service, std::string_view operation, std::string_view form) {
  const Operation* found = find_operation(service, operation);
  if (found == nullptr || found->input == kNoShape) {
    return json::object();
  }
  return read_shape(parse_form(form), shapes()[found->input], "");
}

std::string query_result_xml(std::string_view service, std::string_view operation,
                             const json& result, std::string_view request_id) {
  const Operation* found = find_operation(service, operation);
  const std::string name(operation);
  std::string body;
  if (found != nullptr && found->output != kNoShape) {
    body = tagged(name + "Result", write_shape(shapes()[found->output], result));
  }
  body += tagged("ResponseMetadata", tagged("RequestId", xml_text(request_id)));
  return "<" + name + "Response" + namespace_of(service) + ">" + body + "</" + name + "Response>";
}

std::string query_error_xml(const WireError& error, std::string_view service,
                            std::string_view request_id) {
  const std::string what =
      tagged("Code", xml_text(error.code)) + tagged("Message", xml_text(error.message));
  if (service == kEc2) {
    return tagged("Response", tagged("Errors", tagged("Error", what)) +
                                  tagged("RequestID", xml_text(request_id)));
  }
  const std::string_view blame = error.http_status >= 500 ? "Receiver" : "Sender";
  return "<ErrorResponse" + namespace_of(service) + ">" +
         tagged("Error", tagged("Type", blame) + what) + tagged("RequestId", xml_text(request_id)) +
         "</ErrorResponse>";
}

WireError query_denied(std::string_view service, std::string_view operation,
                       std::string_view caller_arn) {
  return {.code = service == kEc2 ? "UnauthorizedOperation" : "AccessDenied",
          .http_status = 403,
          .message = "User: " + std::string(caller_arn) +
                     " is not authorized to perform: " + std::string(service) + ":" +
                     std::string(operation) + " because Trainyard does not serve it"};
}

}  // namespace trainyard::api
