// SPDX-License-Identifier: Apache-2.0
// The parts of an S3Client, shared by its source files and by nobody else.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "s3/client/s3_client.h"
#include "s3/client/s3_sender.h"

namespace trainyard::s3 {

struct S3Client::State {
  S3Sender sender;
};

// s3_download.cc
Result<std::unique_ptr<ObjectReader>> open_download(S3Sender& sender, const std::string& bucket,
                                                    const std::string& key,
                                                    std::optional<ByteRange> range);
Result<ObjectInfo> head_object(S3Sender& sender, const std::string& bucket, const std::string& key);

// s3_upload.cc
Result<ObjectInfo> upload_object(S3Client& client, S3Sender& sender, const Uri& to,
                                 const ByteSource& body, const PutOptions& options);
// A part that the caller holds, so that it can be sent again.
struct Part {
  PartId id;
  std::string_view bytes;
  std::vector<Checksum> checksums;  // at most one
};
Result<PartInfo> send_part(S3Sender& sender, const Uri& to, const Part& part);
// Fills `buffer` up to `size` bytes; fewer only when the source has ended.
Result<void> fill(const ByteSource& body, std::size_t size, std::string& buffer);
// The one checksum that an upload carries (S3 takes no more): what the caller expects or wants,
// else CRC32C.
std::optional<HashKind> chosen_checksum(const PutOptions& options, bool by_default);

}  // namespace trainyard::s3
