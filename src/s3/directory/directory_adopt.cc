// SPDX-License-Identifier: Apache-2.0
// DirectoryStore's way to take files of this machine as objects.
#include "s3/directory/content_batch.h"
#include "s3/directory/directory_state.h"
#include "s3/directory/directory_store.h"
#include "s3/names.h"

namespace trainyard::s3 {
namespace {

bool is_of_the_store(const Error& error) {
  return error.code == Code::kExhausted || error.subject == "disk";
}

ObjectRow row_of(const LocalFile& file, ContentBatch::Taken taken) {
  return {.info = {.key = file.key,
                   .size = file.size,
                   .etag = std::move(taken.md5_hex),
                   .last_modified = object_time(file.modified)},
          .content = std::move(taken.id)};
}

}  // namespace

Result<AdoptedFiles> DirectoryStore::adopt_files(const std::string& bucket, const LocalFiles& files,
                                                 const AdoptWatch& watch) {
  YARD_TRY(state_->index->require_bucket(bucket));
  AdoptedFiles adopted;
  std::unique_ptr<ContentBatch> batch;
  std::vector<ObjectRow> rows;
  for (auto file = files(); file && !watch.stop.stop_requested(); file = files()) {
    if (batch == nullptr) {
      YARD_TRY(batch, ContentBatch::begin(*state_->files, state_->random));
    }
    const auto good = check_key(file->key);
    auto taken = good ? batch->take(*file, watch) : Result<ContentBatch::Taken>(good.error());
    if (!taken && is_of_the_store(taken.error())) {
      return std::move(taken).error();
    }
    if (!taken) {
      if (taken.error().code != Code::kCancelled) {
        adopted.refused.emplace_back(file->key, taken.error().message);
      }
      continue;
    }
    ++adopted.files;
    adopted.bytes += file->size;
    adopted.shared += taken->shared ? 1 : 0;
    rows.push_back(row_of(*file, *std::move(taken)));
  }
  if (rows.empty()) {
    return adopted;
  }
  YARD_TRY(batch->sync());
  const auto dropped = state_->index->put_objects(bucket, rows);
  if (!dropped) {
    if (may_stand_after_a_crash(dropped.error())) {
      batch->leave();
    }
    return dropped.error();
  }
  batch->keep();
  state_->collect(*dropped);
  return adopted;
}

Result<std::vector<std::optional<KnownFile>>> DirectoryStore::find_known(
    const std::string& bucket, const std::vector<std::string>& keys) {
  return state_->index->known(bucket, keys);
}

}  // namespace trainyard::s3
