// SPDX-License-Identifier: Apache-2.0
// DirectoryStore's multipart uploads: parts are contents like any other, completing joins them.
#include <algorithm>

#include "s3/checksum.h"
#include "s3/directory/directory_state.h"
#include "s3/directory/directory_store.h"
#include "s3/names.h"

namespace trainyard::s3 {
namespace {

constexpr std::uint64_t kMinimumPart = std::uint64_t{5} << 20;
constexpr int kMaximumPart = 10'000;

Error bad_part(int number, std::string_view why, std::string_view subject) {
  return Error{Code::kInvalidArgument, "part " + std::to_string(number) + " " + std::string(why),
               std::string(subject)};
}

// The stored rows of the parts that the client names, in its order.
Result<std::vector<PartRow>> choose(const std::vector<PartRow>& stored,
                                    const std::vector<PartInfo>& named) {
  if (named.empty()) {
    return Error{Code::kInvalidArgument, "an upload is completed with at least one part", "part"};
  }
  std::vector<PartRow> chosen;
  for (const PartInfo& part : named) {
    if (!chosen.empty() && part.number <= chosen.back().info.number) {
      return bad_part(part.number, "does not come in ascending order", "part-order");
    }
    const auto row = std::ranges::lower_bound(
        stored, part.number, {}, [](const PartRow& candidate) { return candidate.info.number; });
    if (row == stored.end() || row->info.number != part.number || row->info.etag != part.etag) {
      return bad_part(part.number, "was not uploaded with that ETag", "part");
    }
    for (const Checksum& promised : part.checksums) {
      const auto kept = std::ranges::find(row->info.checksums, promised.kind, &Checksum::kind);
      if (kept == row->info.checksums.end() || kept->base64 != promised.base64) {
        return bad_part(part.number, "was not uploaded with that checksum", "part");
      }
    }
    chosen.push_back(*row);
  }
  for (std::size_t i = 0; i + 1 < chosen.size(); ++i) {
    if (chosen[i].info.size < kMinimumPart) {
      return bad_part(chosen[i].info.number, "is smaller than 5 MiB and not the last", "part-size");
    }
  }
  return chosen;
}

// With the checksums that the upload asked for; clients send others on the way.
ObjectPart part_of(const PartInfo& info, const PutOptions& upload) {
  ObjectPart part{.size = info.size};
  std::ranges::copy_if(
      info.checksums, std::back_inserter(part.checksums), [&](const Checksum& checksum) {
        return std::ranges::find(upload.compute, checksum.kind) != upload.compute.end();
      });
  return part;
}

ObjectInfo describe(const std::string& key, const PutOptions& options,
                    const std::vector<PartRow>& chosen, WallTime now) {
  std::vector<PartInfo> parts;
  ObjectInfo info{.key = key,
                  .etag = {},
                  .last_modified = now,
                  .content_type = options.content_type,
                  .headers = options.headers,
                  .tags = options.tags};
  for (const PartRow& row : chosen) {
    parts.push_back(row.info);
    info.parts.push_back(part_of(row.info, options));
    info.size += row.info.size;
  }
  info.etag = multipart_etag(parts);
  for (const HashKind kind : options.compute) {
    if (auto checksum = multipart_checksum(kind, options.full_object_checksum, parts)) {
      info.checksums.push_back(std::move(*checksum));
    }
  }
  return info;
}

}  // namespace

Result<std::string> DirectoryStore::create_upload(const std::string& bucket, const std::string& key,
                                                  const PutOptions& options) {
  YARD_TRY(check_key(key));
  for (const HashKind kind : options.compute) {
    if (options.full_object_checksum && !is_crc(kind)) {
      return Error{Code::kInvalidArgument,
                   std::string(checksum_name(kind)) + " cannot cover a whole object of parts",
                   "checksum-type"};
    }
  }
  const UploadInfo upload{
      .key = key, .upload_id = state_->random.hex(24), .started = state_->clock.now()};
  YARD_TRY(state_->index->add_upload(bucket, upload, options));
  return upload.upload_id;
}

Result<PartInfo> DirectoryStore::put_part(const std::string& bucket, const std::string& key,
                                          const PartId& part, const ByteSource& body,
                                          const PutOptions& options) {
  if (part.number < 1 || part.number > kMaximumPart) {
    return Error{Code::kInvalidArgument, "part numbers go from 1 to 10000", "part-number"};
  }
  YARD_TRY(const PutOptions upload, state_->index->upload(bucket, key, part.upload_id));
  PutOptions wanted = options;
  wanted.compute.insert(wanted.compute.end(), upload.compute.begin(), upload.compute.end());
  Digester digester(wanted, &state_->lanes);
  YARD_TRY(Draft draft, state_->files->write(body, digester, options.length));
  YARD_TRY(auto digests, digester.finish());
  YARD_TRY(draft.publish());
  PartRow row{.info = {.number = part.number,
                       .size = digests.size,
                       .etag = std::move(digests.md5_hex),
                       .last_modified = state_->clock.now(),
                       .checksums = std::move(digests.checksums)},
              .content = draft.id()};
  YARD_TRY(const Contents dropped, told(draft, state_->index->put_part(part.upload_id, row)));
  draft.keep();
  state_->collect(dropped);
  return std::move(row.info);
}

Result<ObjectInfo> DirectoryStore::complete_upload(const std::string& bucket,
                                                   const std::string& key,
                                                   const std::string& upload_id,
                                                   const std::vector<PartInfo>& parts) {
  return complete_upload_if(bucket, key, upload_id, parts, {});
}

Result<ObjectInfo> DirectoryStore::complete_upload_if(const std::string& bucket,
                                                      const std::string& key,
                                                      const std::string& upload_id,
                                                      const std::vector<PartInfo>& parts,
                                                      const CompleteOptions& under) {
  // Where the disk copies, joining may outlast a client's patience: its next attempts wait for what
  // the first is making instead of each making its own.
  const Turns::Turn turn(state_->joining, upload_id);
  const auto options = state_->index->upload(bucket, key, upload_id);
  if (!options) {
    // The answer to the first attempt may have been lost.
    auto made = state_->index->object(bucket, key);
    if (options.error().subject == "upload" && made && made->upload == upload_id) {
      return std::move(made->info);
    }
    return options.error();
  }
  YARD_TRY(const auto stored, state_->index->parts(upload_id));
  YARD_TRY(const auto chosen, choose(stored, parts));
  ObjectRow row{.info = describe(key, *options, chosen, state_->clock.now()),
                .content = chosen.front().content,
                .upload = upload_id};
  std::optional<Draft> draft;
  if (chosen.size() > 1) {
    std::vector<std::string> contents;
    std::ranges::transform(chosen, std::back_inserter(contents), &PartRow::content);
    auto joined = state_->files->concatenate(contents);
    if (!joined) {
      return joined.error().code == Code::kNotFound
                 ? Error{Code::kConflict, "a part was replaced while the upload was completed",
                         "upload"}
                 : std::move(joined).error();
    }
    draft.emplace(*std::move(joined));
    YARD_TRY(draft->publish());
    row.content = draft->id();
  }
  auto dropped =
      state_->index->complete(bucket, row, chosen,
                              {.only_if_absent = options->only_if_absent || under.only_if_absent,
                               .only_if_match = under.only_if_match,
                               .before_visible = under.before_visible});
  if (!dropped) {
    if (draft) {
      dropped = told(*draft, std::move(dropped));
    }
    // Two clients may complete at once: the second finds what the first has made.
    auto made = state_->index->object(bucket, key);
    return made && made->upload == upload_id ? Result<ObjectInfo>(std::move(made->info))
                                             : Result<ObjectInfo>(std::move(dropped).error());
  }
  if (draft) {
    draft->keep();
  }
  state_->collect(*dropped);
  return std::move(row.info);
}

Result<void> DirectoryStore::abort_upload(const std::string& bucket, const std::string& key,
                                          const std::string& upload_id) {
  YARD_TRY(const PutOptions upload, state_->index->upload(bucket, key, upload_id));
  YARD_TRY(const Contents dropped, state_->index->remove_upload(upload_id));
  state_->collect(dropped);
  return {};
}

Result<std::size_t> DirectoryStore::expire_uploads(WallTime before, const std::stop_token& stop) {
  YARD_TRY(const auto silent, state_->index->uploads_silent_since(before));
  std::size_t count = 0;
  for (const std::string& id : silent) {
    if (stop.stop_requested()) {
      break;
    }
    const auto dropped = state_->index->remove_silent_upload(id, before);
    if (dropped) {
      state_->collect(*dropped);
      ++count;
    } else if (dropped.error().subject != "upload") {
      return dropped.error();
    }
  }
  return count;
}

Result<std::vector<PartInfo>> DirectoryStore::list_parts(const std::string& bucket,
                                                         const std::string& key,
                                                         const std::string& upload_id) {
  YARD_TRY(const PutOptions upload, state_->index->upload(bucket, key, upload_id));
  YARD_TRY(auto rows, state_->index->parts(upload_id));
  std::vector<PartInfo> parts;
  parts.reserve(rows.size());
  for (PartRow& row : rows) {
    parts.push_back(std::move(row.info));
  }
  return parts;
}

Result<std::vector<UploadInfo>> DirectoryStore::list_uploads(const std::string& bucket,
                                                             const std::string& prefix) {
  return state_->index->uploads(bucket, {.prefix = prefix, .limit = kNoLimit});
}

Result<std::vector<UploadInfo>> DirectoryStore::list_uploads_after(const std::string& bucket,
                                                                   const UploadsAfter& after) {
  return state_->index->uploads(bucket, after);
}

}  // namespace trainyard::s3
