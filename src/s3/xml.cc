// SPDX-License-Identifier: Apache-2.0
#include "s3/xml.h"

#include <algorithm>

#include <pugixml.hpp>

#include "formats/xml_text.h"

namespace trainyard::s3 {
namespace {

constexpr int kDeepest = 16;
constexpr std::size_t kMostElements = 100'000;

Error bad_xml(std::string_view why) {
  return Error{Code::kInvalidArgument, "the XML is not usable: " + std::string(why), "xml"};
}

std::string_view local_name(std::string_view name) {
  const std::size_t colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

Result<void> convert(const pugi::xml_node& from, int depth, std::size_t& elements, XmlNode& to) {
  if (depth > kDeepest || ++elements > kMostElements) {
    return bad_xml("too many elements");
  }
  to.name = local_name(from.name());
  for (const pugi::xml_node& child : from.children()) {
    if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata) {
      to.text += child.value();
    } else if (child.type() == pugi::node_element) {
      YARD_TRY(convert(child, depth + 1, elements, to.children.emplace_back()));
    }
  }
  return {};
}

}  // namespace

const XmlNode* XmlNode::child(std::string_view wanted) const {
  const auto it = std::ranges::find(children, wanted, &XmlNode::name);
  return it == children.end() ? nullptr : &*it;
}

std::string_view XmlNode::get(std::string_view wanted) const {
  const XmlNode* found = child(wanted);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

Result<XmlNode> parse_xml(std::string_view text) {
  pugi::xml_document document;
  // A key may be a blank or hold line ends: text is taken as it stands.
  const unsigned options = pugi::parse_cdata | pugi::parse_escapes | pugi::parse_ws_pcdata_single;
  const auto parsed = document.load_buffer(text.data(), text.size(), options, pugi::encoding_utf8);
  if (!parsed) {
    return bad_xml(parsed.description());
  }
  const pugi::xml_node root = document.document_element();
  if (!root) {
    return bad_xml("there is no element");
  }
  XmlNode node;
  std::size_t elements = 0;
  YARD_TRY(convert(root, 1, elements, node));
  return node;
}

XmlWriter::XmlWriter(std::string_view root, bool in_namespace)
    : out_("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<" + std::string(root) +
           (in_namespace ? " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" : ">")),
      open_{std::string(root)} {}

XmlWriter& XmlWriter::open(std::string_view name) {
  out_.append("<").append(name).append(">");
  open_.emplace_back(name);
  return *this;
}

XmlWriter& XmlWriter::close() {
  out_.append("</").append(open_.back()).append(">");
  open_.pop_back();
  return *this;
}

XmlWriter& XmlWriter::add(std::string_view name, std::string_view text) {
  out_.append("<").append(name).append(">").append(xml_text(text));
  out_.append("</").append(name).append(">");
  return *this;
}

XmlWriter& XmlWriter::add(std::string_view name, std::uint64_t number) {
  return add(name, std::to_string(number));
}

std::string XmlWriter::finish() {
  while (!open_.empty()) {
    close();
  }
  return std::move(out_);
}

}  // namespace trainyard::s3
