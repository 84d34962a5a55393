// SPDX-License-Identifier: Apache-2.0
// What the tests of object stores share: text in and out of a store, keys that tools get wrong, and
// a DirectoryStore in a temporary folder.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "s3/directory/directory_store.h"
#include "s3/directory/index.h"
#include "s3/object_store.h"

namespace trainyard::s3 {

// Gives `text` in pieces of at most `step` bytes.
inline ByteSource text_source(std::string text, std::size_t step = 1'000'000) {
  return [text = std::move(text), step,
          at = std::size_t{0}](std::span<std::byte> out) mutable -> Result<std::size_t> {
    const std::size_t some = std::min({step, out.size(), text.size() - at});
    std::memcpy(out.data(), text.data() + at, some);
    at += some;
    return some;
  };
}

inline Result<std::string> read_to_end(ObjectReader& reader) {
  std::string text;
  std::vector<std::byte> buffer(10'000);
  while (true) {
    YARD_TRY(const std::size_t got, reader.read(buffer));
    if (got == 0) {
      return text;
    }
    text.append(reinterpret_cast<const char*>(buffer.data()), got);
  }
}

inline Result<std::string> get_text(ObjectStore& store, const std::string& bucket,
                                    const std::string& key, std::optional<ByteRange> range = {}) {
  YARD_TRY(auto reader, store.get(bucket, key, range));
  return read_to_end(*reader);
}

inline Result<ObjectInfo> put_text(ObjectStore& store, const std::string& bucket,
                                   const std::string& key, const std::string& text,
                                   const PutOptions& options = {}) {
  return store.put(bucket, key, text_source(text), options);
}

// Not random, not compressible into a mistake: every 8 bytes differ.
inline std::string long_text(std::size_t size, std::uint64_t seed = 1) {
  std::string text(size, '\0');
  SeededRandom random(seed);
  random.fill(std::as_writable_bytes(std::span(text)));
  return text;
}

// Keys that real stores and tools have got wrong.
inline std::vector<std::string> odd_keys() {
  return {"h+i",
          "foo++bar.txt",
          "a&b=c;d,e@f$g:h?",
          "a b",
          "a+b",
          "a%2Bb",
          "x*y?[z]",
          "a//b",
          "../x",
          "./x",
          "first.last/",
          "/leading",
          "trailing/",
          "x",
          "x/y",
          "\xE3\x80\x80wide",
          "del\x7F",
          "line\nbreak",
          "caf\xC3\xA9",
          "cafe\xCC\x81",
          "Case",
          "case",
          "\xF0\x9F\x98\x80",
          std::string(1'024, 'k'),
          "quote\"'<>&",
          "back\\slash",
          "#frag?query=1",
          " ",
          "..",
          std::string(300, 'c') + "/d",
          "a/../../b"};
}

struct StoreFixture : testing::Test {
  void SetUp() override { reopen(); }

  void reopen() {
    store.reset();
    auto opened = DirectoryStore::open(folder.path() / "store", clock, random);
    ASSERT_TRUE(opened) << opened.error().message;
    store = std::move(*opened);
    static_cast<void>(store->create_bucket("bucket"));
  }

  std::size_t content_files() const {
    std::size_t count = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder.path() / "store" / "data")) {
      count += entry.is_regular_file() && !is_blank(entry) ? 1 : 0;
    }
    return count;
  }
  // A name that waits for a content.
  bool is_blank(const std::filesystem::directory_entry& entry) const {
    const Path root = folder.path() / "store";
    const std::string id = entry.path().filename();
    return entry.file_size() == 0 &&
           std::filesystem::exists(root / "incoming" / id.substr(0, 24)) &&
           Index::open(root / "index.db").value()->used({id})->empty();
  }

  // In memory where there is such a folder: the store syncs a lot.
  TempDir folder =
      *TempDir::make("trainyard-store-", std::filesystem::exists("/dev/shm") ? "/dev/shm" : "");
  SystemClock clock;
  SystemRandom random;
  std::unique_ptr<DirectoryStore> store;
};

}  // namespace trainyard::s3
