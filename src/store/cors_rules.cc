// SPDX-License-Identifier: Apache-2.0
#include "store/cors_rules.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "s3/xml.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kMostRules = 100;
constexpr std::array<std::string_view, 5> kMethods = {"GET", "PUT", "POST", "DELETE", "HEAD"};

Error refused(std::string message) {
  return Error{Code::kInvalidArgument, std::move(message), "request"};
}

// One "*" stands for any text.
bool fits(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    return pattern == text;
  }
  const std::string_view front = pattern.substr(0, star);
  const std::string_view back = pattern.substr(star + 1);
  return text.size() >= front.size() + back.size() && text.starts_with(front) &&
         text.ends_with(back);
}

bool any_fits(const std::vector<std::string>& patterns, std::string_view text) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return fits(pattern, text); });
}

bool all_headers_fit(const CorsRule& rule, std::string_view wanted) {
  std::vector<std::string> patterns;
  std::ranges::transform(rule.headers, std::back_inserter(patterns), lower);
  return std::ranges::all_of(split(wanted, ','), [&](std::string_view name) {
    return trim(name).empty() || any_fits(patterns, lower(trim(name)));
  });
}

Result<void> check_pattern(std::string_view what, const std::string& pattern) {
  return std::ranges::count(pattern, '*') > 1
             ? Result<void>(refused(std::string(what) + " \"" + pattern +
                                    "\" can not have more than one wildcard."))
             : Result<void>();
}

Result<void> check(const CorsRule& rule) {
  if (rule.origins.empty() || rule.methods.empty()) {
    return Error{Code::kInvalidArgument, "a CORSRule needs AllowedOrigin and AllowedMethod", "xml"};
  }
  for (const std::string& method : rule.methods) {
    if (std::ranges::find(kMethods, method) == kMethods.end()) {
      return refused("Found unsupported HTTP method in CORS config. Unsupported method is " +
                     method);
    }
  }
  for (const std::string& origin : rule.origins) {
    YARD_TRY(check_pattern("AllowedOrigin", origin));
  }
  for (const std::string& header : rule.headers) {
    YARD_TRY(check_pattern("AllowedHeader", header));
  }
  for (const std::string& header : rule.exposed) {
    if (header.find('*') != std::string::npos) {
      return refused("ExposeHeader \"" + header +
                     "\" contains wildcard. We currently do not support wildcard for ExposeHeader");
    }
  }
  return {};
}

Result<CorsRule> read_rule(const s3::XmlNode& node) {
  CorsRule rule;
  for (const s3::XmlNode& child : node.children) {
    if (child.name == "AllowedOrigin") {
      rule.origins.push_back(child.text);
    } else if (child.name == "AllowedMethod") {
      rule.methods.push_back(child.text);
    } else if (child.name == "AllowedHeader") {
      rule.headers.push_back(child.text);
    } else if (child.name == "ExposeHeader") {
      rule.exposed.push_back(child.text);
    } else if (child.name == "ID") {
      rule.id = child.text;
    } else if (child.name == "MaxAgeSeconds") {
      const auto seconds = parse_int(trim(child.text));
      if (!seconds || *seconds < 0) {
        return Error{Code::kInvalidArgument, "MaxAgeSeconds is not a number of seconds", "xml"};
      }
      rule.max_age = *seconds;
    }
  }
  YARD_TRY(check(rule));
  return rule;
}

void add_all(s3::XmlWriter& xml, std::string_view element, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    xml.add(element, text);
  }
}

bool allows(const CorsRule& rule, std::string_view origin, std::string_view method) {
  return any_fits(rule.origins, origin) &&
         std::ranges::find(rule.methods, method) != rule.methods.end();
}

http::Headers describe(const CorsRule& rule, std::string_view origin) {
  http::Headers headers;
  const bool is_open = std::ranges::find(rule.origins, "*") != rule.origins.end();
  headers.set("Access-Control-Allow-Origin", is_open ? "*" : std::string(origin));
  if (!is_open) {
    headers.set("Access-Control-Allow-Credentials", "true");
  }
  headers.set("Access-Control-Allow-Methods", join(rule.methods, ", "));
  if (!rule.exposed.empty()) {
    headers.set("Access-Control-Expose-Headers", join(rule.exposed, ", "));
  }
  if (rule.max_age) {
    headers.set("Access-Control-Max-Age", std::to_string(*rule.max_age));
  }
  headers.set("Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method");
  return headers;
}

}  // namespace

Result<CorsRules> parse_cors(const std::string& document) {
  YARD_TRY(const s3::XmlNode root, s3::parse_xml(document));
  if (root.name != "CORSConfiguration") {
    return Error{Code::kInvalidArgument, "the body is not a CORSConfiguration", "xml"};
  }
  CorsRules rules;
  for (const s3::XmlNode& child : root.children) {
    if (child.name == "CORSRule") {
      YARD_TRY(rules.emplace_back(), read_rule(child));
    }
  }
  if (rules.empty() || rules.size() > kMostRules) {
    return Error{Code::kInvalidArgument, "a CORSConfiguration has 1 to 100 rules", "xml"};
  }
  return rules;
}

std::string cors_document(const CorsRules& rules) {
  s3::XmlWriter xml("CORSConfiguration");
  for (const CorsRule& rule : rules) {
    xml.open("CORSRule");
    if (!rule.id.empty()) {
      xml.add("ID", rule.id);
    }
    add_all(xml, "AllowedMethod", rule.methods);
    add_all(xml, "AllowedOrigin", rule.origins);
    add_all(xml, "AllowedHeader", rule.headers);
    add_all(xml, "ExposeHeader", rule.exposed);
    if (rule.max_age) {
      xml.add("MaxAgeSeconds", static_cast<std::uint64_t>(*rule.max_age));
    }
    xml.close();
  }
  return xml.finish();
}

std::optional<http::Headers> allow_request(const CorsRules& rules, std::string_view origin,
                                           std::string_view method) {
  const auto rule = std::ranges::find_if(
      rules, [&](const CorsRule& candidate) { return allows(candidate, origin, method); });
  return rule == rules.end() ? std::nullopt : std::optional(describe(*rule, origin));
}

std::optional<http::Headers> allow_preflight(const CorsRules& rules, std::string_view origin,
                                             std::string_view method, std::string_view wanted) {
  for (const CorsRule& rule : rules) {
    if (!allows(rule, origin, method) || !all_headers_fit(rule, wanted)) {
      continue;
    }
    http::Headers headers = describe(rule, origin);
    if (!trim(wanted).empty()) {
      headers.set("Access-Control-Allow-Headers", lower(wanted));
    }
    return headers;
  }
  return std::nullopt;
}

}  // namespace trainyard::store
