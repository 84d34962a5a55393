// SPDX-License-Identifier: Apache-2.0
// XML bodies of S3: the tree keeps to its limits, and text survives being written and read again.
#include <string>

#include "formats/xml_text.h"
#include "s3/xml.h"
#include "testing/fuzz/fuzz.h"

namespace {

using trainyard::s3::parse_xml;
using trainyard::s3::XmlNode;

std::size_t count(const XmlNode& node, int depth) {
  YARD_CHECK(depth <= 16, "a tree deeper than the limit");
  const std::string written = trainyard::xml_text(node.text);
  const auto read = parse_xml("<t>" + written + "</t>");
  YARD_CHECK(read.has_value(), "text that was written cannot be read");
  YARD_CHECK(trainyard::xml_text(read->text) == written, "text changes when it is read again");
  std::size_t elements = 1;
  for (const XmlNode& child : node.children) {
    elements += count(child, depth + 1);
  }
  return elements;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto root = parse_xml(trainyard::fuzz::as_text(data, size));
  if (root) {
    YARD_CHECK(count(*root, 1) <= 100'000, "more elements than the limit");
  } else {
    YARD_CHECK(root.error().subject == "xml", "another subject");
  }
  return 0;
}
