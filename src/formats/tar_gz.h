// SPDX-License-Identifier: Apache-2.0
// A directory tree as a gzip'd pax tar, made while it is read: no temporary copy, and memory does
// not grow with the tree's size. The same tree gives the same bytes. archive.h reads archives.
//
// Several trees may be joined: the texts of all but the last are made with `end_of_archive` off,
// and their concatenation is one valid .tar.gz (gzip members follow each other, RFC 1952 §2.2).
//
// What no archive may hold is left out and named: symbolic links that leave the tree, pipes,
// sockets, devices and what lies too deep. Errors: kConflict names a file that changed while it was
// read; kDenied, kUnavailable, ... as the system says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/file.h"
#include "base/result.h"
#include "formats/left_out.h"

namespace trainyard {

struct TarGzOptions {
  int level = 6;  // zlib's, 1 (fast) to 9
  bool end_of_archive = true;
};

// Pulls: read() fits s3::ByteSource. One thread at a time.
class TarGzReader {
 public:
  static Result<TarGzReader> open(const Path& tree, const TarGzOptions& options = {});
  TarGzReader(TarGzReader&&) noexcept;
  TarGzReader& operator=(TarGzReader&&) noexcept;
  ~TarGzReader();

  // Fills `out` with the next bytes; 0 at the end. After an error the archive is lost.
  Result<std::size_t> read(std::span<std::byte> out);

  std::uint64_t members() const;
  const LeftOut& left_out() const;  // so far; all at the end

 private:
  struct State;
  explicit TarGzReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Pushes: the whole archive into `sink`, whose error ends it. Says what it does not hold.
using TarGzSink = std::function<Result<void>(std::span<const std::byte> bytes)>;
Result<LeftOut> write_tar_gz(const Path& tree, const TarGzOptions& options, const TarGzSink& sink);

}  // namespace trainyard
