// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/code.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "formats/archive.h"
#include "formats/left_out.h"
#include "formats/tree_walk.h"
#include "instance/faults.h"
#include "instance/launch/contract.h"
#include "instance/launch/pip_settings.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamed = 10;  // files that an error lists

Result<LeftOut> unpack_from_s3(const std::string& uri, s3::ObjectStore& store, const Path& code) {
  YARD_TRY(const s3::Uri place, s3::parse_uri(uri));
  YARD_TRY(const auto reader, store.get(place.bucket, place.key, std::nullopt));
  YARD_TRY(extract_archive([&](std::span<std::byte> out) { return reader->read(out); }, code));
  return LeftOut{};
}

// A path as the container will see it, as the path that it has here.
Result<Path> outside_path(const std::string& inside, const Path& ml) {
  const Path path = Path(inside).lexically_normal();
  const Path below = path.lexically_relative(Path(kMlRoot));
  if (!path.is_absolute() || below.empty() || *below.begin() == "..") {
    return Error{Code::kInvalidArgument,
                 "sagemaker_submit_directory must be an s3:// URI or a path below /opt/ml, not '" +
                     inside + "'"};
  }
  // Through a link that user code of an attempt before has left, it could be any file of ours.
  std::error_code failed;
  const Path source = ml / below;
  if (fs::weakly_canonical(source, failed) != fs::weakly_canonical(ml, failed) / below) {
    return Error{Code::kInvalidArgument,
                 "sagemaker_submit_directory leads through a link: '" + inside + "'"};
  }
  return source;
}

// As in an archive, set-id bits are not kept, and the owner can always read and write.
Result<void> copy_entry(const TreeEntry& entry, const Path& to) {
  const mode_t mode = entry.mode & 0777;
  if (S_ISDIR(entry.mode)) {
    return make_directories(to, mode | 0700);
  }
  if (S_ISLNK(entry.mode)) {
    return ::symlink(entry.link_target.c_str(), to.c_str()) == 0
               ? Result<void>()
               : errno_error("link " + to.string(), errno);
  }
  YARD_TRY(const Fd out, open_file(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW));
  YARD_TRY(copy_rest(entry.fd.get(), out.get()));
  return ::fchmod(out.get(), mode | 0600) == 0 ? Result<void>()
                                               : errno_error("chmod " + to.string(), errno);
}

Result<LeftOut> take_from_container(const std::string& inside, const Path& ml, const Path& code) {
  YARD_TRY(const Path source, outside_path(inside, ml));
  std::error_code failed;
  const fs::file_status status = fs::symlink_status(source, failed);
  if (fs::is_regular_file(status)) {
    YARD_TRY(extract_archive(source, code));
    return LeftOut{};
  }
  if (!fs::is_directory(status)) {
    return Error{Code::kNotFound, "sagemaker_submit_directory " + inside + " does not exist"};
  }
  if (fs::equivalent(source, code, failed)) {
    return LeftOut{};
  }
  // A channel that an attempt before has used may hold anything: pipes and links out of it are no
  // source.
  LeftOut left_out;
  const auto take = [&](const TreeEntry& entry) { return copy_entry(entry, code / entry.name); };
  if (auto copied = walk_tree(source, left_out, take); !copied) {
    return copied.error().in("copying " + inside);
  }
  return left_out;
}

std::string top_names(const Path& code) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(code, failed)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const bool more = names.size() > kNamed;
  names.resize(std::min(names.size(), kNamed));
  return names.empty() ? "nothing" : join(names, ", ") + (more ? ", ..." : "");
}

// Links of the source are followed as long as they stay in it: one that does not leads in the
// container to another file than here.
Result<Fd> open_program(const Path& code, const Path& relative) {
  YARD_TRY(const Fd top, open_file(code, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH;
  Fd file(static_cast<int>(::syscall(SYS_openat2, top.get(), relative.c_str(), &how, sizeof how)));
  if (!file.is_open()) {
    return errno_error("open " + relative.string(), errno);
  }
  return file;
}

Result<void> check_program(const LaunchForm& form, const Path& code) {
  const Result<Fd> program = open_program(code, Path(form.program).lexically_normal());
  struct stat info {};
  if (!program || ::fstat(program->get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Error{Code::kNotFound, "the entry point '" + form.program +
                                      "' (sagemaker_program) is not in " + form.submit_directory +
                                      ", which holds: " + top_names(code)};
  }
  if (!form.program.ends_with(".py")) {
    static_cast<void>(::fchmod(program->get(), (info.st_mode & 07777) | S_IXUSR | S_IXGRP));
  }
  return {};
}

// The environment's comes before the machine's, as with pip. A user's is not in the container.
Variables pip_settings_of(const Path& python_environment) {
  Variables settings;
  for (const Path& file :
       {python_environment / "pip.conf", Path("/etc/pip.conf"), Path("/etc/xdg/pip/pip.conf")}) {
    settings.merge(settings_of_pip_file(read_file(file).value_or("")));
  }
  return settings;
}

}  // namespace

Result<CodeFacts> fetch_code(const wire::Assignment& assignment, const LaunchForm& form,
                             s3::ObjectStore& store, const Path& ml) {
  if (form.program.empty()) {
    return CodeFacts{};
  }
  const Path code = ml / "code";
  const std::string& source = form.submit_directory;
  const Result<LeftOut> taken = source.starts_with("s3://") ? unpack_from_s3(source, store, code)
                                                            : take_from_container(source, ml, code);
  if (!taken) {
    return clients_fault(taken.error().in("reading the source " + source));
  }
  if (Result<void> found = check_program(form, code); !found) {
    return clients_fault(std::move(found).error());
  }
  std::error_code failed;
  const Path programs = Path(assignment.python_environment) / "bin";
  const bool has_environment = !assignment.python_environment.empty();
  CodeFacts facts{.has_requirements = fs::is_regular_file(code / "requirements.txt", failed),
                  .has_setup_py = fs::is_regular_file(code / "setup.py", failed),
                  .has_uv = has_environment && fs::exists(programs / "uv", failed),
                  .has_pip = has_environment && fs::exists(programs / "pip", failed),
                  .pip_settings = pip_settings_of(assignment.python_environment)};
  if (taken->count > 0) {
    facts.notes.push_back("Left out of the source in " + source + ": " + taken->text());
  }
  return facts;
}

}  // namespace trainyard::instance
