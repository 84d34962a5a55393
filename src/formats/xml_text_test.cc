// SPDX-License-Identifier: Apache-2.0
#include "formats/xml_text.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

TEST(XmlText, EscapesMarkupAndKeepsTheRest) {
  EXPECT_EQ(xml_text("a \"b\" <c> & '\u65e5'\t\n"), "a &quot;b&quot; &lt;c&gt; &amp; '\u65e5'\t\n");
  EXPECT_EQ(xml_text("a\r\nb"), "a&#xD;\nb");
}

TEST(XmlText, PutsTheReplacementCharacterWhereXmlHasNoWord) {
  EXPECT_EQ(xml_text(std::string("a\x01\0\xFF", 4)), "a\uFFFD\uFFFD\uFFFD");
}

}  // namespace
}  // namespace trainyard
