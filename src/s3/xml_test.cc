// SPDX-License-Identifier: Apache-2.0
#include "s3/xml.h"

#include <gtest/gtest.h>

namespace trainyard::s3 {
namespace {

TEST(Xml, KeepsTextExactly) {
  for (const std::string text : {"a b", " ", "\n", "a\r\nb", "<&>\"'", "\xE6\x97\xA5", "x\x7Fy"}) {
    const std::string document = XmlWriter("Root").add("Key", text).finish();
    const auto root = parse_xml(document);
    ASSERT_TRUE(root) << document;
    EXPECT_EQ(root->get("Key"), text);
  }
}

TEST(Xml, ReadsWithAndWithoutNamespace) {
  const auto root =
      parse_xml("<s:D xmlns:s=\"u\"><!-- c --><s:O><K><![CDATA[<x>]]></K></s:O></s:D>");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->name, "D");
  EXPECT_EQ(root->child("O")->get("K"), "<x>");
  EXPECT_EQ(root->child("missing"), nullptr);
  EXPECT_EQ(root->get("missing"), "");
}

TEST(Xml, RefusesWhatIsBrokenDeepOrHuge) {
  std::string deep;
  for (int i = 0; i < 17; ++i) {
    deep.insert(0, "<a>").append("</a>");
  }
  std::string wide = "<a>";
  for (int i = 0; i < 100'001; ++i) {
    wide += "<b/>";
  }
  const std::string bomb = "<!DOCTYPE a [<!ENTITY x \"yyyy\">]><a>&x;</a>";
  EXPECT_EQ(parse_xml(deep).error().subject, "xml");
  EXPECT_EQ(parse_xml(wide + "</a>").error().subject, "xml");
  EXPECT_EQ(parse_xml("<a>").error().subject, "xml");
  EXPECT_EQ(parse_xml("").error().subject, "xml");
  EXPECT_EQ(parse_xml(bomb)->text, "&x;");
}

}  // namespace
}  // namespace trainyard::s3
