// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/code.h"

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "formats/archive.h"
#include "instance/faults.h"
#include "instance/launch/contract.h"
#include "instance/launch/pip_settings.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamed = 10;  // files that an error lists

Result<void> unpack_from_s3(const std::string& uri, s3::ObjectStore& store, const Path& code) {
  YARD_TRY(const s3::Uri place, s3::parse_uri(uri));
  YARD_TRY(const auto reader, store.get(place.bucket, place.key, std::nullopt));
  return extract_archive([&](std::span<std::byte> out) { return reader->read(out); }, code);
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

Result<void> take_from_container(const std::string& inside, const Path& ml, const Path& code) {
  YARD_TRY(const Path source, outside_path(inside, ml));
  std::error_code failed;
  const fs::file_status status = fs::symlink_status(source, failed);
  if (fs::is_regular_file(status)) {
    return extract_archive(source, code);
  }
  if (!fs::is_directory(status)) {
    return Error{Code::kNotFound, "sagemaker_submit_directory " + inside + " does not exist"};
  }
  if (fs::equivalent(source, code, failed)) {
    return {};
  }
  fs::copy(source, code, fs::copy_options::recursive | fs::copy_options::copy_symlinks, failed);
  if (failed) {
    return errno_error("copy " + inside, failed.value());
  }
  return {};
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

Result<void> check_program(const LaunchForm& form, const Path& code) {
  const Path relative = Path(form.program).lexically_normal();
  std::error_code failed;
  const bool inside = relative.is_relative() && !relative.empty() && *relative.begin() != "..";
  if (!inside || !fs::is_regular_file(code / relative, failed)) {
    return Error{Code::kNotFound, "the entry point '" + form.program +
                                      "' (sagemaker_program) is not in " + form.submit_directory +
                                      ", which holds: " + top_names(code)};
  }
  if (!form.program.ends_with(".py")) {
    fs::permissions(code / relative, fs::perms::owner_exec | fs::perms::group_exec,
                    fs::perm_options::add, failed);
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
  Result<void> taken = source.starts_with("s3://") ? unpack_from_s3(source, store, code)
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
  return CodeFacts{.has_requirements = fs::is_regular_file(code / "requirements.txt", failed),
                   .has_setup_py = fs::is_regular_file(code / "setup.py", failed),
                   .has_uv = has_environment && fs::exists(programs / "uv", failed),
                   .has_pip = has_environment && fs::exists(programs / "pip", failed),
                   .pip_settings = pip_settings_of(assignment.python_environment)};
}

}  // namespace trainyard::instance
