// SPDX-License-Identifier: Apache-2.0
// libarchive makes the tar, zlib the gzip member around it: the library's own gzip filter cannot
// leave out the two zero blocks with which a tar ends.
#include "formats/tar_gz.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include "base/encoding.h"
#include "formats/locale.h"
#include "formats/tree_walk.h"

namespace trainyard {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;

struct FreeArchive {
  void operator()(archive* a) const { archive_write_free(a); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

// Compresses what it is given into a text that the reader takes away.
class Gzip {
 public:
  explicit Gzip(int level) {
    constexpr int kGzipFormat = 15 + 16;
    ready_ = deflateInit2(&stream_, level, Z_DEFLATED, kGzipFormat, 8, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Gzip() { deflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  bool is_ready() const { return ready_; }
  std::string& output() { return output_; }
  void add(const void* bytes, std::size_t size) { run(bytes, size, Z_NO_FLUSH); }
  void finish() { run(nullptr, 0, Z_FINISH); }

 private:
  void run(const void* bytes, std::size_t size, int flush) {
    // zlib's pointer is older than const; the size fits, pieces are small.
    stream_.next_in = static_cast<Bytef*>(const_cast<void*>(bytes));
    stream_.avail_in = static_cast<uInt>(size);
    do {
      const std::size_t used = output_.size();
      output_.resize(used + kPiece);
      stream_.next_out = reinterpret_cast<Bytef*>(output_.data() + used);
      stream_.avail_out = kPiece;
      deflate(&stream_, flush);
      output_.resize(used + kPiece - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

  z_stream stream_ = {};
  bool ready_ = false;
  std::string output_;
};

}  // namespace

struct TarGzReader::State {
  State(TreeWalk tree, const TarGzOptions& given)
      : walk(std::move(tree)), options(given), gzip(given.level), tar(archive_write_new()) {}

  static la_ssize_t write_callback(archive*, void* self, const void* bytes, std::size_t size) {
    auto& state = *static_cast<State*>(self);
    // Closing writes the end-of-archive blocks and nothing else: nothing is padded to a record.
    if (!state.closing || state.options.end_of_archive) {
      state.gzip.add(bytes, size);
    }
    return static_cast<la_ssize_t>(size);
  }

  Result<void> open();
  Result<void> step();
  Result<void> next_member();
  Result<void> write_header(const TreeEntry& entry);
  Result<void> copy_piece();
  Result<void> end_file();
  Result<void> finish();
  Error broken(const std::string& name) const;

  TreeWalk walk;
  TarGzOptions options;
  Gzip gzip;
  std::unique_ptr<archive, FreeArchive> tar;
  std::uint64_t members = 0;
  LeftOut left_out;
  TreeEntry current;       // the file being copied, if its descriptor is open
  std::uint64_t left = 0;  // of its bytes
  std::size_t taken = 0;   // of gzip's output, by the caller
  bool closing = false;
  bool finished = false;
  std::array<std::byte, kPiece> piece;
};

Error TarGzReader::State::broken(const std::string& name) const {
  const char* text = archive_error_string(tar.get());
  return {Code::kInternal, "archive \"" + to_valid_utf8(name) +
                               "\": " + (text != nullptr ? to_valid_utf8(text) : "unknown error")};
}

Result<void> TarGzReader::State::open() {
  if (options.level < 1 || options.level > 9) {
    return Error{Code::kInvalidArgument, "a compression level is from 1 to 9"};
  }
  archive* a = tar.get();
  if (!gzip.is_ready() || a == nullptr || archive_write_set_format_pax_restricted(a) < 0 ||
      archive_write_set_bytes_per_block(a, 0) != ARCHIVE_OK ||
      archive_write_open(a, this, nullptr, write_callback, nullptr) != ARCHIVE_OK) {
    return Error{Code::kExhausted, "no memory to write an archive"};
  }
  return {};
}

// Adds a little to gzip's output, or finishes.
Result<void> TarGzReader::State::step() {
  return current.fd.is_open() ? copy_piece() : next_member();
}

Result<void> TarGzReader::State::next_member() {
  auto visited = walk.next();
  if (!visited && is_unfit(visited.error())) {
    left_out.add(visited.error());
    return {};
  }
  YARD_TRY(auto entry, std::move(visited));
  if (!entry) {
    return finish();
  }
  YARD_TRY(write_header(*entry));
  ++members;
  if (entry->fd.is_open()) {
    left = entry->size;
    current = std::move(*entry);
  }
  return {};
}

Result<void> TarGzReader::State::write_header(const TreeEntry& entry) {
  const std::unique_ptr<archive_entry, FreeEntry> header(archive_entry_new());
  if (!header) {
    return Error{Code::kExhausted, "no memory to write an archive"};
  }
  archive_entry* h = header.get();
  // Owners are left out: the same tree gives the same bytes on every machine.
  archive_entry_set_pathname(h, entry.name.c_str());
  archive_entry_set_filetype(h, entry.mode & S_IFMT);
  archive_entry_set_perm(h, entry.mode & 07777);
  archive_entry_set_mtime(h, entry.modified.tv_sec, entry.modified.tv_nsec);
  archive_entry_set_size(h, static_cast<la_int64_t>(entry.size));
  if (S_ISLNK(entry.mode)) {
    archive_entry_set_symlink(h, entry.link_target.c_str());
  }
  return archive_write_header(tar.get(), h) >= ARCHIVE_WARN ? Result<void>() : broken(entry.name);
}

Result<void> TarGzReader::State::copy_piece() {
  if (left == 0) {
    return end_file();
  }
  const std::size_t wanted = std::min<std::uint64_t>(left, piece.size());
  auto got = read_some(current.fd.get(), std::span(piece).first(wanted));
  if (!got) {
    return got.error().in("reading \"" + to_valid_utf8(current.name) + "\"");
  }
  if (*got == 0) {
    return changed_while_read(current.name);
  }
  if (archive_write_data(tar.get(), piece.data(), *got) < 0) {
    return broken(current.name);
  }
  left -= *got;
  return {};
}

Result<void> TarGzReader::State::end_file() {
  struct stat now;
  if (fstat(current.fd.get(), &now) != 0 ||
      static_cast<std::uint64_t>(now.st_size) != current.size ||
      now.st_mtim.tv_sec != current.modified.tv_sec ||
      now.st_mtim.tv_nsec != current.modified.tv_nsec) {
    return changed_while_read(current.name);
  }
  current = TreeEntry();
  return {};
}

Result<void> TarGzReader::State::finish() {
  if (archive_write_finish_entry(tar.get()) < ARCHIVE_WARN) {
    return broken("(the last)");
  }
  closing = true;
  if (archive_write_close(tar.get()) < ARCHIVE_WARN) {
    return broken("(the end)");
  }
  gzip.finish();
  finished = true;
  return {};
}

TarGzReader::TarGzReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TarGzReader::TarGzReader(TarGzReader&&) noexcept = default;
TarGzReader& TarGzReader::operator=(TarGzReader&&) noexcept = default;
TarGzReader::~TarGzReader() = default;

Result<TarGzReader> TarGzReader::open(const Path& tree, const TarGzOptions& options) {
  YARD_TRY(TreeWalk walk, TreeWalk::open(tree));
  auto state = std::make_unique<State>(std::move(walk), options);
  YARD_TRY(state->open());
  return TarGzReader(std::move(state));
}

Result<std::size_t> TarGzReader::read(std::span<std::byte> out) {
  State& s = *state_;
  std::string& ready = s.gzip.output();
  const Utf8Locale locale;
  while (ready.size() == s.taken && !s.finished) {
    ready.clear();
    s.taken = 0;
    YARD_TRY(s.step());
  }
  const std::size_t given = std::min(out.size(), ready.size() - s.taken);
  std::memcpy(out.data(), ready.data() + s.taken, given);
  s.taken += given;
  return given;
}

std::uint64_t TarGzReader::members() const {
  return state_->members;
}

const LeftOut& TarGzReader::left_out() const {
  return state_->left_out;
}

Result<LeftOut> write_tar_gz(const Path& tree, const TarGzOptions& options, const TarGzSink& sink) {
  YARD_TRY(TarGzReader reader, TarGzReader::open(tree, options));
  std::vector<std::byte> buffer(kPiece);
  for (;;) {
    YARD_TRY(const std::size_t got, reader.read(buffer));
    if (got == 0) {
      return reader.left_out();
    }
    YARD_TRY(sink(std::span(buffer).first(got)));
  }
}

}  // namespace trainyard
