// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/state.h"

#include <array>
#include <cstring>

#include <fmt/format.h>

namespace trainyard::comm {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are copied as they are");

constexpr std::string_view kMagic = "YCS1";
enum class Kind : char { kResidual = 'r', kDeepGradient = 'd', kPowerSgd = 'p' };

class Writer {
 public:
  explicit Writer(Kind kind) : bytes_(kMagic) { bytes_ += static_cast<char>(kind); }

  template <typename Words>
  void add(const Words& words) {
    const std::uint64_t length = words.size();
    bytes_.append(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes_.append(reinterpret_cast<const char*>(words.data()), length * sizeof(words[0]));
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

Error corrupt(std::string what) {
  return {Code::kCorrupt, "saved state of a compressor: " + std::move(what)};
}

class Reader {
 public:
  static Result<Reader> open(std::string_view bytes, Kind kind) {
    if (!bytes.starts_with(kMagic)) {
      return corrupt("it does not begin with YCS1");
    }
    if (bytes.size() == kMagic.size() || bytes[kMagic.size()] != static_cast<char>(kind)) {
      return corrupt(fmt::format("it is not of kind '{}'", static_cast<char>(kind)));
    }
    return Reader(bytes.substr(kMagic.size() + 1));
  }

  template <typename Word>
  Result<std::vector<Word>> next() {
    std::uint64_t length = 0;
    if (bytes_.size() < sizeof(length)) {
      return corrupt("it ends early");
    }
    std::memcpy(&length, bytes_.data(), sizeof(length));
    bytes_.remove_prefix(sizeof(length));
    if (length > bytes_.size() / sizeof(Word)) {
      return corrupt(
          fmt::format("{} words are said to follow, {} bytes do", length, bytes_.size()));
    }
    std::vector<Word> words(length);
    bytes_.copy(reinterpret_cast<char*>(words.data()), length * sizeof(Word));
    bytes_.remove_prefix(length * sizeof(Word));
    return words;
  }

  Result<void> end() const {
    return bytes_.empty() ? Result<void>()
                          : corrupt(fmt::format("{} bytes too many", bytes_.size()));
  }

 private:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
};

}  // namespace

std::string save(const Residual& state) {
  Writer writer(Kind::kResidual);
  writer.add(state.values);
  return writer.take();
}

std::string save(const DeepGradientState& state) {
  Writer writer(Kind::kDeepGradient);
  writer.add(state.velocity);
  writer.add(state.accumulated);
  return writer.take();
}

std::string save(const PowerSgdState& state) {
  Writer writer(Kind::kPowerSgd);
  writer.add(std::array{state.rows, state.columns, state.rank});
  writer.add(state.error);
  writer.add(state.q);
  return writer.take();
}

Result<Residual> load_residual(std::string_view bytes) {
  YARD_TRY(Reader reader, Reader::open(bytes, Kind::kResidual));
  YARD_TRY(std::vector<float> values, reader.next<float>());
  YARD_TRY(reader.end());
  return Residual{std::move(values)};
}

Result<DeepGradientState> load_deep_gradient(std::string_view bytes) {
  YARD_TRY(Reader reader, Reader::open(bytes, Kind::kDeepGradient));
  YARD_TRY(std::vector<float> velocity, reader.next<float>());
  YARD_TRY(std::vector<float> accumulated, reader.next<float>());
  YARD_TRY(reader.end());
  if (velocity.size() != accumulated.size()) {
    return corrupt("its two arrays differ in length");
  }
  return DeepGradientState{std::move(velocity), std::move(accumulated)};
}

Result<PowerSgdState> load_power_sgd(std::string_view bytes) {
  YARD_TRY(Reader reader, Reader::open(bytes, Kind::kPowerSgd));
  YARD_TRY(std::vector<std::uint32_t> shape, reader.next<std::uint32_t>());
  YARD_TRY(std::vector<float> error, reader.next<float>());
  YARD_TRY(std::vector<float> q, reader.next<float>());
  YARD_TRY(reader.end());
  if (shape.size() != 3 || error.size() != std::uint64_t{shape[0]} * shape[1] ||
      q.size() != std::uint64_t{shape[2]} * shape[1]) {
    return corrupt("its arrays do not have the shape that it says");
  }
  return PowerSgdState{shape[0], shape[1], shape[2], std::move(error), std::move(q)};
}

}  // namespace trainyard::comm
