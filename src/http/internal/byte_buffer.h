// SPDX-License-Identifier: Apache-2.0
// Bytes that have been received and not yet parsed: appended at the end, consumed at the front.
// Holds no memory while empty and released, so that an idle connection costs nothing here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace trainyard::http {

class ByteBuffer {
 public:
  std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
  std::size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  std::size_t capacity() const { return capacity_; }

  // Room for at least `count` more bytes, to be filled and then committed.
  std::span<char> room(std::size_t count) {
    if (capacity_ - end_ < count) {
      make_room(count);
    }
    return {data_.get() + end_, capacity_ - end_};
  }
  void commit(std::size_t count) { end_ += count; }
  void consume(std::size_t count) {
    begin_ += count;
    if (begin_ == end_) {
      begin_ = end_ = 0;
    }
  }
  void release() { *this = ByteBuffer(); }

 private:
  void make_room(std::size_t count) {
    const std::size_t needed = size() + count;
    const std::size_t capacity = needed <= capacity_ ? capacity_ : std::max(needed, 2 * capacity_);
    std::unique_ptr<char[]> grown(new char[capacity]);  // not zeroed
    std::copy_n(data_.get() + begin_, size(), grown.get());
    end_ = size();
    begin_ = 0;
    capacity_ = capacity;
    data_ = std::move(grown);
  }

  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace trainyard::http
