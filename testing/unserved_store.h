// SPDX-License-Identifier: Apache-2.0
// For tests only: an object store that serves nothing. Stores for one purpose override what they
// do.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "s3/object_store.h"

namespace trainyard::s3 {

class UnservedStore : public ObjectStore {
 public:
  Result<std::vector<BucketInfo>> list_buckets() override { return unserved(); }
  Result<void> create_bucket(const std::string&) override { return unserved(); }
  Result<void> delete_bucket(const std::string&) override { return unserved(); }
  Result<void> head_bucket(const std::string&) override { return unserved(); }
  Result<ObjectInfo> put(const std::string&, const std::string&, const ByteSource&,
                         const PutOptions&) override {
    return unserved();
  }
  Result<std::unique_ptr<ObjectReader>> get(const std::string&, const std::string&,
                                            std::optional<ByteRange>) override {
    return unserved();
  }
  Result<ObjectInfo> head(const std::string&, const std::string&) override { return unserved(); }
  Result<void> remove(const std::string&, const std::string&) override { return unserved(); }
  Result<ListPage> list(const std::string&, const ListQuery&) override { return unserved(); }
  Result<ObjectInfo> copy(const std::string&, const std::string&, const std::string&,
                          const std::string&, const std::optional<PutOptions>&) override {
    return unserved();
  }
  Result<std::string> create_upload(const std::string&, const std::string&,
                                    const PutOptions&) override {
    return unserved();
  }
  Result<PartInfo> put_part(const std::string&, const std::string&, const PartId&,
                            const ByteSource&, const PutOptions&) override {
    return unserved();
  }
  Result<ObjectInfo> complete_upload(const std::string&, const std::string&, const std::string&,
                                     const std::vector<PartInfo>&) override {
    return unserved();
  }
  Result<void> abort_upload(const std::string&, const std::string&, const std::string&) override {
    return unserved();
  }
  Result<std::vector<PartInfo>> list_parts(const std::string&, const std::string&,
                                           const std::string&) override {
    return unserved();
  }
  Result<std::vector<UploadInfo>> list_uploads(const std::string&, const std::string&) override {
    return unserved();
  }

 private:
  static Error unserved() { return Error{Code::kUnimplemented, "not served"}; }
};

}  // namespace trainyard::s3
