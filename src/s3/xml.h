// SPDX-License-Identifier: Apache-2.0
// The XML of S3's bodies, as a small tree of elements and as text. Attributes, comments and
// processing instructions are dropped; there are no entities but the five of XML and no document
// types, so a hostile body cannot grow. Used by the client and by the S3 face.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::s3 {

struct XmlNode {
  std::string name;  // without a namespace prefix
  std::string text;  // of its own, exact
  std::vector<XmlNode> children = {};

  const XmlNode* child(std::string_view wanted) const;  // the first of that name, or nullptr
  // Text of the first child of that name, or empty.
  std::string_view get(std::string_view wanted) const;
};

// The root element. kInvalidArgument, subject "xml": not well-formed, deeper than 16 elements, or
// of more than 100,000 elements.
Result<XmlNode> parse_xml(std::string_view text);

// Builds a document; elements are closed in reverse order of opening.
class XmlWriter {
 public:
  // Opens the document with its root element in S3's namespace (errors have none).
  explicit XmlWriter(std::string_view root, bool in_namespace = true);

  XmlWriter& open(std::string_view name);
  XmlWriter& close();
  XmlWriter& add(std::string_view name, std::string_view text);
  XmlWriter& add(std::string_view name, std::uint64_t number);
  std::string finish();  // closes what is open

 private:
  std::string out_;
  std::vector<std::string> open_;
};

}  // namespace trainyard::s3
