// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/artifacts.h"

#include <filesystem>

#include <fcntl.h>

#include "base/encoding.h"
#include "base/text.h"
#include "formats/tar_gz.h"
#include "formats/tree_walk.h"
#include "instance/faults.h"
#include "instance/transfer/upload_patience.h"
#include "s3/names.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;

// Weights hardly compress: the fast level loses a few per cent and is three times as quick.
constexpr int kCompression = 1;

// Marks what the store is to blame for and may not be for long: the body's own errors come out of
// the same call.
Result<void> put(s3::ObjectStore& store, const s3::Uri& place, const s3::ByteSource& body,
                 const s3::PutOptions& options) {
  bool is_read = true;
  const s3::ByteSource watched = [&](std::span<std::byte> out) {
    Result<std::size_t> got = body(out);
    is_read = is_read && got.has_value();
    return got;
  };
  const Result<s3::ObjectInfo> stored = store.put(place.bucket, place.key, watched, options);
  if (stored) {
    return {};
  }
  Error error = stored.error();
  if (is_read && may_pass(error)) {
    error.subject = kMayPass;
  }
  return error;
}

Result<void> send_file(s3::ObjectStore& store, const s3::Uri& place, const Fd& in,
                       std::uint64_t size) {
  s3::PutOptions options;
  options.length = size;
  return put(
      store, place, [&](std::span<std::byte> out) { return read_some(in.get(), out); }, options);
}

// A link becomes a copy of the file that it leads to, which must lie in the same tree.
Result<Path> target_of(const TreeEntry& link, const Path& top) {
  std::error_code failed;
  const Path target = fs::canonical(top / link.name, failed);
  const Path below = failed ? Path() : target.lexically_relative(top);
  if (failed || below.empty() || *below.begin() == ".." || !fs::is_regular_file(target, failed)) {
    return Error{Code::kInvalidArgument,
                 "\"" + to_valid_utf8(link.name) + "\" is a link to \"" +
                     to_valid_utf8(link.link_target) +
                     "\", which leads out of the directory, or to no file",
                 "link"};
  }
  return target;
}

Result<void> send_link(s3::ObjectStore& store, const s3::Uri& place, const TreeEntry& link,
                       const Path& top, LeftOut& left_out) {
  const Result<Path> target = target_of(link, top);
  if (!target) {
    left_out.add(target.error());
    return {};
  }
  YARD_TRY(const Fd in, open_file(*target, O_RDONLY | O_NOFOLLOW));
  std::error_code failed;
  return send_file(store, place, in, fs::file_size(*target, failed));
}

// A directory is no object. A name that cannot be a key keeps back nothing but its own file.
Result<void> send_entry(s3::ObjectStore& store, const s3::Uri& place, const TreeEntry& entry,
                        const Path& top, LeftOut& left_out) {
  if (S_ISDIR(entry.mode)) {
    return {};
  }
  if (const Result<void> named = s3::check_key(place.key); !named) {
    left_out.add(
        {Code::kInvalidArgument, "\"" + to_valid_utf8(entry.name) +
                                     "\" cannot become an object: " + named.error().message});
    return {};
  }
  return S_ISLNK(entry.mode) ? send_link(store, place, entry, top, left_out)
                             : send_file(store, place, entry.fd, entry.size);
}

Result<LeftOut> send_files(s3::ObjectStore& store, const s3::Uri& place, const Path& tree) {
  std::error_code failed;
  const Path top = fs::canonical(tree, failed);
  const std::string prefix =
      place.key.empty() || place.key.ends_with('/') ? place.key : place.key + "/";
  LeftOut left_out;
  YARD_TRY(walk_tree(tree, left_out, [&](const TreeEntry& entry) {
    return send_entry(store, {place.bucket, prefix + entry.name}, entry, top, left_out);
  }));
  return left_out;
}

Result<LeftOut> send_archive(s3::ObjectStore& store, const s3::Uri& place, const Path& tree,
                             bool whole) {
  YARD_TRY(TarGzReader archive,
           TarGzReader::open(tree, {.level = kCompression, .end_of_archive = whole}));
  s3::PutOptions options;
  options.content_type = "application/gzip";
  YARD_TRY(put(
      store, place, [&](std::span<std::byte> out) { return archive.read(out); }, options));
  return archive.left_out();
}

}  // namespace

bool holds_files(const Path& root, const std::string& directory) {
  Path path = root;
  std::error_code failed;
  for (const std::string_view part : split(directory, '/')) {
    path /= part;
    if (!fs::is_directory(fs::symlink_status(path, failed))) {
      return false;
    }
  }
  return !fs::is_empty(path, failed) && !failed;
}

std::vector<std::string> first_names(const Path& root, const std::string& directory) {
  constexpr std::size_t kMostNames = 300;
  constexpr std::size_t kMostBytes = std::size_t{16} << 10;
  std::vector<std::string> names;
  if (!holds_files(root, directory)) {
    return names;
  }
  Result<TreeWalk> walk = TreeWalk::open(root / directory);
  std::size_t bytes = 0;
  while (walk && names.size() < kMostNames) {
    auto visited = walk->next();
    if (!visited && is_unfit(visited.error())) {
      continue;
    }
    if (!visited) {
      break;  // what cannot be read is told by the upload
    }
    const std::optional<TreeEntry>& entry = *visited;
    if (!entry) {
      break;
    }
    bytes += entry->name.size();
    if (bytes > kMostBytes) {
      break;
    }
    if (S_ISREG(entry->mode) || S_ISLNK(entry->mode)) {
      names.push_back(to_valid_utf8(entry->name));
    }
  }
  return names;
}

Result<LeftOut> upload_artifact(s3::ObjectStore& store, const wire::ArtifactUpload& upload,
                                const Path& tree, const std::string& what) {
  YARD_TRY(const s3::Uri place, s3::parse_uri(upload.s3_uri));
  Result<LeftOut> sent = upload.form == "files"
                             ? send_files(store, place, tree)
                             : send_archive(store, place, tree, upload.form == "whole");
  if (!sent) {
    return clients_fault(std::move(sent).error()).in("uploading " + what + " to " + upload.s3_uri);
  }
  return sent;
}

Error left_out_error(const LeftOut& left_out, const wire::ArtifactUpload& upload,
                     const std::string& what) {
  // The list may be cut where the reason is: what matters more comes first.
  const bool one = left_out.count == 1;
  const std::string rest = upload.form == "files" ? "was uploaded" : "is in the archive";
  return {Code::kInvalidArgument, what + " holds " + (one ? "something" : "things") +
                                      " that cannot be uploaded; the rest " + rest +
                                      ". Left out: " + left_out.text()};
}

}  // namespace trainyard::instance
