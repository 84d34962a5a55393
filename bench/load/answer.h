// SPDX-License-Identifier: Apache-2.0
// An HTTP answer as it comes in, in pieces of any size: its head is parsed, its body is measured
// and hashed, and kept only where it must be looked into. Strict, since both sides are under test:
// what the client cannot frame for certain is kCorrupt. Answers with a Content-Length only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::load {

struct Answer {
  int status = 0;
  std::uint64_t length = 0;
  std::uint32_t checksum = 0;  // crc32c of the body
  std::string text = {};       // the body, if it is kept
  bool closes = false;         // the server ends the connection after this answer
};

class AnswerReader {
 public:
  // Bodies that are kept may have 64 MiB. `has_body` is false for the answer to HEAD.
  explicit AnswerReader(bool keeps_text = false, bool has_body = true)
      : keeps_text_(keeps_text), has_body_(has_body) {}

  // Takes the next bytes. kCorrupt for what is no answer, or follows its end.
  Result<void> feed(std::string_view bytes);
  bool is_done() const { return in_body_ && left_ == 0; }
  const Answer& answer() const { return answer_; }

 private:
  Result<void> parse_head(std::string_view head);
  Result<void> parse_field(std::string_view line);
  Result<void> take_body(std::string_view bytes);

  bool keeps_text_;
  bool has_body_;
  std::string head_;
  bool has_length_ = false;
  bool in_body_ = false;
  std::uint64_t left_ = 0;
  Answer answer_;
};

}  // namespace trainyard::load
