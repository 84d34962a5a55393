// SPDX-License-Identifier: Apache-2.0
#include "store/post_object.h"

#include <algorithm>
#include <array>
#include <variant>

#include "base/encoding.h"
#include "base/text.h"
#include "s3/checksum.h"
#include "s3/object_headers.h"
#include "s3/xml.h"
#include "store/body.h"
#include "store/form_data.h"
#include "store/handlers.h"
#include "store/post_policy.h"
#include "store/tags.h"

namespace trainyard::store {
namespace {

using Fields = std::map<std::string, std::string>;

// Fields that are headers of the object, beside x-amz-... .
constexpr std::array<std::string_view, 7> kHeaders = {
    "cache-control",    "content-type", "content-disposition", "content-encoding",
    "content-language", "expires",      "content-md5"};

Error bad_argument(std::string message) {
  return Error{Code::kInvalidArgument, std::move(message), "argument"};
}

std::string_view value_of(const Fields& fields, const std::string& name) {
  const auto it = fields.find(name);
  return it == fields.end() ? std::string_view() : std::string_view(it->second);
}

Error missing(std::string_view name) {
  return bad_argument("Bucket POST must contain a field named '" + std::string(name) +
                      "'. If it is specified, please check the order of the fields.");
}

Result<void> require_bucket(const http::Request& request, const Target& target) {
  if (target.bucket.empty() || !target.key.empty() || !request.query.empty()) {
    return Error{Code::kUnimplemented, "The specified method is not allowed against this resource",
                 "method"};
  }
  return {};
}

Result<void> require_fields(const Form& form) {
  if (!form.fields.contains("policy")) {
    const bool is_signed =
        form.fields.contains("x-amz-signature") || form.fields.contains("signature");
    return is_signed ? missing("policy") : Error{Code::kDenied, "Access Denied", "access"};
  }
  if (form.fields.contains("awsaccesskeyid") || form.fields.contains("signature")) {
    return Error{Code::kInvalidArgument,
                 "The authorization mechanism you have provided is not supported. Please use "
                 "AWS4-HMAC-SHA256.",
                 "request"};
  }
  for (const char* name :
       {"key", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"}) {
    if (!form.fields.contains(name)) {
      return missing(name);
    }
  }
  return form.has_file
             ? Result<void>()
             : Result<void>(bad_argument("POST requires exactly one file upload per request."));
}

// Puts the name of the file where the values want it. Both may be long, and the name come often.
Result<void> expand_fields(Form& form) {
  std::size_t bytes = 0;
  for (auto& [name, value] : form.fields) {
    bytes += expanded_size(value, form.file_name);
    if (bytes > FormReader::kMostBeforeFile) {
      return Error{Code::kExhausted,
                   "Your POST request fields with the name of the upload file were too large.",
                   "form-fields"};
    }
    value = expand_file_name(value, form.file_name);
  }
  return {};
}

http::SignedForm signed_form(const Fields& fields) {
  const auto text = [&](const char* name) { return std::string(value_of(fields, name)); };
  return {.policy = text("policy"),
          .algorithm = text("x-amz-algorithm"),
          .credential = text("x-amz-credential"),
          .date = text("x-amz-date"),
          .signature = text("x-amz-signature"),
          .token = text("x-amz-security-token")};
}

// A field becomes a header of answers to come.
Result<void> require_header(const std::string& name, std::string_view value) {
  const auto is_control = [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
  };
  const auto is_of_a_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return std::ranges::all_of(name, is_of_a_name) && std::ranges::none_of(value, is_control)
             ? Result<void>()
             : bad_argument("The field '" + to_valid_utf8(name) + "' cannot be a header.");
}

Result<http::Headers> headers_of(const Fields& fields) {
  http::Headers headers;
  for (const auto& [name, value] : fields) {
    const bool is_header =
        name.starts_with("x-amz-") || std::ranges::find(kHeaders, name) != kHeaders.end();
    if (is_header) {
      YARD_TRY(require_header(name, value));
      headers.set(name, value);
    }
  }
  if (const auto acl = fields.find("acl"); acl != fields.end()) {
    headers.set("x-amz-acl", acl->second);
  }
  return headers;
}

// What the object is to be, and what its bytes are to hash to.
Result<s3::PutOptions> options_of(const Fields& fields) {
  YARD_TRY(const http::Headers headers, headers_of(fields));
  YARD_TRY(s3::PutOptions options, read_write_headers(headers));
  options.expected = s3::read_checksums(headers);
  for (const s3::Checksum& checksum : options.expected) {
    const auto raw = from_base64(checksum.base64);
    if (!raw || raw->size() != hash_of(checksum.kind, "").size()) {
      return bad_argument("Value for " + s3::checksum_header(checksum.kind) + " is invalid.");
    }
  }
  if (const std::string* algorithm = headers.find("x-amz-checksum-algorithm")) {
    const auto kind = s3::checksum_kind(*algorithm);
    if (!kind) {
      return bad_argument("Checksum algorithm provided is unsupported.");
    }
    options.compute = {*kind};
  }
  if (const std::string* text = headers.find("content-md5")) {
    const auto md5 = from_base64(*text);
    if (!md5 || md5->size() != 16) {
      return Error{Code::kInvalidArgument, "Content-MD5 is not an MD5 in base64", "content-md5"};
    }
    options.expected_md5 = *md5;
  }
  if (const auto tagging = fields.find("tagging"); tagging != fields.end()) {
    YARD_TRY(options.tags, parse_tag_document(tagging->second, kMostObjectTags));
  }
  return options;
}

// The file, of as many bytes as the policy allows.
s3::ByteSource file_of(FormReader& form, const PostPolicy& policy) {
  return [&form, &policy,
          passed = std::uint64_t{0}](std::span<std::byte> out) mutable -> Result<std::size_t> {
    YARD_TRY(const std::size_t got, form.read_file(out));
    passed += got;
    if (passed > policy.most) {
      return Error{Code::kInvalidArgument,
                   "Your proposed upload exceeds the maximum allowed size: " +
                       std::to_string(policy.most) + " bytes",
                   "file-size"};
    }
    if (got == 0 && passed < policy.least) {
      return Error{Code::kInvalidArgument,
                   "Your proposed upload is smaller than the minimum allowed size: " +
                       std::to_string(policy.least) + " bytes",
                   "part-size"};
    }
    return got;
  };
}

// Where a browser is sent then; empty when the field is no such address, which S3 then overlooks.
std::string redirect_of(const Fields& fields, const std::string& bucket, const std::string& key,
                        const std::string& etag) {
  std::string_view url = value_of(fields, "success_action_redirect");
  url = url.empty() ? value_of(fields, "redirect") : url;
  const bool is_url = url.starts_with("http://") || url.starts_with("https://");
  if (!is_url || !std::ranges::all_of(url, [](char c) { return c > 0x20 && c < 0x7F; })) {
    return {};
  }
  const std::size_t fragment = std::min(url.find('#'), url.size());
  const std::string_view before = url.substr(0, fragment);
  return std::string(before) + (before.find('?') == std::string_view::npos ? "?" : "&") +
         "bucket=" + uri_encode(bucket) + "&key=" + uri_encode(key) +
         "&etag=" + uri_encode(s3::quote_etag(etag)) + std::string(url.substr(fragment));
}

std::string location_of(const http::Request& request, const PostCall& call, const Target& target,
                        const std::string& key) {
  const bool is_tls = !request.listener.empty() && request.listener == call.options.tls_listener;
  const auto by_path = parse_target({.method = "POST", .path = request.path});
  const bool names_bucket = by_path && by_path->bucket == target.bucket;
  return (is_tls ? "https://" : "http://") + std::string(request.headers.get("Host")) +
         (names_bucket ? "/" + uri_encode(target.bucket) : "") + "/" + uri_encode(key, true);
}

http::Response success(const Fields& fields, const std::string& bucket, const std::string& location,
                       const s3::ObjectInfo& info) {
  http::Response response{.status = 204};
  response.headers.set("ETag", s3::quote_etag(info.etag));
  response.headers.set("Location", location);
  describe_checksums(info.checksums, response.headers);
  const std::string redirect = redirect_of(fields, bucket, info.key, info.etag);
  const std::string_view status = value_of(fields, "success_action_status");
  if (!redirect.empty()) {
    response.status = 303;
    response.headers.set("Location", redirect);
  } else if (status == "200") {
    response.status = 200;
  } else if (status == "201") {
    s3::XmlWriter xml("PostResponse", false);
    xml.add("Location", location).add("Bucket", bucket).add("Key", info.key);
    xml.add("ETag", s3::quote_etag(info.etag));
    response.status = 201;
    response.headers.set("Content-Type", "application/xml");
    response.body = xml.finish();
  }
  return response;
}

Result<void> still_holds(const Options& options, const http::Verified& verified) {
  Result<void> holds = options.still_holds ? options.still_holds(verified) : Result<void>();
  if (!holds && holds.error().code == Code::kDenied) {
    holds.error().subject = "access";
  }
  return holds;
}

}  // namespace

bool is_form_upload(const http::Request& request) {
  return request.method == "POST" && is_form_data(request.headers.get("Content-Type")) &&
         request.headers.find("Authorization") == nullptr &&
         request.query.find("Signature=") == std::string::npos;
}

Result<PostAnswer> post_object(http::Exchange& exchange, const Target& target,
                               const PostCall& call) {
  const http::Request& request = exchange.request();
  YARD_TRY(require_bucket(request, target));
  YARD_TRY(FormReader reader, FormReader::open(request.headers.get("Content-Type"),
                                               [&exchange](std::span<std::byte> out) {
                                                 return read_wire(exchange, out);
                                               }));
  YARD_TRY(Form form, reader.read_fields(call.clock));
  YARD_TRY(require_fields(form));
  const auto checked = call.check(signed_form(form.fields));
  if (const auto* failed = std::get_if<http::AuthError>(&checked)) {
    return PostAnswer{.refused = *failed};
  }
  const auto& verified = std::get<http::Verified>(checked);
  YARD_TRY(const PostPolicy policy, parse_post_policy(value_of(form.fields, "policy")));
  YARD_TRY(expand_fields(form));
  YARD_TRY(check_post_policy(policy, form.fields, target.bucket, call.clock.now()));
  YARD_TRY(s3::PutOptions options, options_of(form.fields));
  const std::string key(value_of(form.fields, "key"));
  if (key.empty()) {
    return bad_argument("User key must have a length greater than 0.");
  }
  options.before_visible = [&] { return still_holds(call.options, verified); };
  YARD_TRY(const s3::ObjectInfo info,
           call.store.put(target.bucket, key, file_of(reader, policy), options));
  PostAnswer answer{.response = success(form.fields, target.bucket,
                                        location_of(request, call, target, key), info)};
  echo_encryption(options, answer.response.headers);
  return answer;
}

}  // namespace trainyard::store
