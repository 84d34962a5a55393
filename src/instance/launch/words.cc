// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/words.h"

#include <optional>

namespace trainyard::instance {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (kBlanks.find(c) != std::string_view::npos) {
        end_word();
      } else if (c == '\'' || c == '"') {
        YARD_TRY(take_quoted(c));
      } else if (c == '\\') {
        if (at_ == text_.size()) {
          return Error{Code::kInvalidArgument, "nothing follows the last backslash"};
        }
        add(text_[at_++]);
      } else {
        add(c);
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
  void add(char c) {
    if (!word_) {
      word_.emplace();
    }
    *word_ += c;
  }

  void end_word() {
    if (word_) {
      words_.push_back(std::move(*word_));
      word_.reset();
    }
  }

  // Between double quotes a backslash stands for itself unless a quote or another one follows.
  Result<void> take_quoted(char quote) {
    if (!word_) {
      word_.emplace();  // '' is a word, too
    }
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == quote) {
        return {};
      }
      const bool escapes = quote == '"' && c == '\\' && at_ < text_.size() &&
                           (text_[at_] == '"' || text_[at_] == '\\');
      add(escapes ? text_[at_++] : c);
    }
    return Error{Code::kInvalidArgument,
                 std::string("a quotation that begins with ") + quote + " does not end"};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<std::string> word_;
  std::vector<std::string> words_;
};

}  // namespace

Result<std::vector<std::string>> split_words(std::string_view text) {
  return Splitter(text).run();
}

}  // namespace trainyard::instance
