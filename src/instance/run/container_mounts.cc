// SPDX-License-Identifier: Apache-2.0
#include "instance/run/container_mounts.h"

namespace trainyard::instance {
namespace {

using sandbox::ContainerMount;
using Kind = ContainerMount::Kind;

void add_opt(const std::vector<OptEntry>& entries, std::vector<ContainerMount>& mounts) {
  mounts.push_back({.kind = Kind::kTmpfs, .target = "/opt"});
  for (const OptEntry& entry : entries) {
    const std::string path = "/opt/" + entry.name;
    if (entry.link.empty()) {
      mounts.push_back({.kind = Kind::kReadOnlyBind, .target = path, .source = path});
    } else {
      mounts.push_back({.kind = Kind::kSymlink, .target = path, .source = entry.link});
    }
  }
}

}  // namespace

std::vector<std::string> hidden_directories(const ContainerPlaces& places) {
  std::vector<std::string> hidden = {"/root", "/home", "/run", "/tmp", "/var/tmp"};
  for (const std::string& home : {places.user_home, places.home}) {
    if (!home.empty()) {
      hidden.push_back(home);
    }
  }
  return hidden;
}

std::vector<std::string> secret_places() {
  return {
      // passwords
      "/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/security/opasswd",
      "/etc/sudoers", "/etc/sudoers.d", "/var/backups",
      // keys
      "/etc/ssh", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/letsencrypt",
      "/etc/krb5.keytab", "/etc/ceph", "/etc/kubernetes", "/etc/rancher",
      // networks
      "/etc/NetworkManager/system-connections", "/etc/netplan", "/etc/wpa_supplicant",
      "/etc/wireguard", "/etc/openvpn", "/etc/ipsec.secrets", "/etc/ipsec.d/private", "/etc/ppp",
      // what services keep, and their sockets outside /run
      "/var/lib/trainyard", "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers",
      "/var/lib/kubelet", "/var/lib/rancher", "/var/lib/lxd", "/var/lib/incus", "/var/lib/libvirt",
      "/var/lib/mysql", "/var/lib/postgresql", "/var/lib/private", "/var/lib/sss/secrets",
      "/var/snap", "/var/spool"};
}

std::vector<ContainerMount> container_mounts(const ContainerPlaces& places) {
  const std::string& scratch = places.scratch;
  std::vector<ContainerMount> mounts;
  for (const std::string& directory : places.secret_directories) {
    mounts.push_back({.kind = Kind::kTmpfs, .target = directory});
  }
  for (const std::string& file : places.secret_files) {
    mounts.push_back({.kind = Kind::kReadOnlyBind, .target = file, .source = "/dev/null"});
  }
  for (const std::string& directory : hidden_directories(places)) {
    if (directory == "/tmp") {
      mounts.push_back({.kind = Kind::kBind, .target = directory, .source = scratch + "/tmp"});
    } else if (directory == "/var/tmp") {
      mounts.push_back({.kind = Kind::kBind, .target = directory, .source = scratch + "/var-tmp"});
    } else {
      mounts.push_back({.kind = Kind::kTmpfs, .target = directory});
    }
  }
  mounts.push_back({.kind = Kind::kDev, .target = "/dev"});
  mounts.push_back({.kind = Kind::kTmpfs, .target = "/dev/shm", .size = places.shared_memory});
  for (const VisibleFile& device : places.devices) {
    mounts.push_back({.kind = Kind::kDevice, .target = device.target, .source = device.source});
  }
  mounts.push_back({.kind = Kind::kProc, .target = "/proc"});
  if (places.own_sysfs) {
    mounts.push_back({.kind = Kind::kReadOnlyBind, .target = "/sys", .source = scratch + "/sys"});
  }
  if (places.own_opt) {
    add_opt(places.opt, mounts);
  }
  mounts.push_back({.kind = Kind::kBind, .target = "/opt/ml", .source = scratch + "/ml"});
  mounts.push_back(
      {.kind = Kind::kReadOnlyBind, .target = "/etc/hosts", .source = scratch + "/hosts"});
  if (!places.resolver.empty()) {
    mounts.push_back({.kind = Kind::kReadOnlyBind,
                      .target = places.resolver,
                      .source = scratch + "/resolv.conf"});
  }
  for (const VisibleFile& file : places.files) {
    mounts.push_back({.kind = Kind::kReadOnlyBind, .target = file.target, .source = file.source});
  }
  if (!places.meeting.empty()) {
    mounts.push_back({.kind = Kind::kBind, .target = kMeetingPlace, .source = places.meeting});
  }
  if (!places.status.empty()) {
    mounts.push_back({.kind = Kind::kBind, .target = kStatusPlace, .source = places.status});
  }
  if (!places.python_environment.empty()) {
    mounts.push_back({.kind = places.python_is_layered ? Kind::kBind : Kind::kReadOnlyBind,
                      .target = places.python_environment,
                      .source = places.python_environment});
  }
  if (!places.checkpoints.empty()) {
    mounts.push_back(
        {.kind = Kind::kBind, .target = places.checkpoints, .source = scratch + "/checkpoints"});
  }
  return mounts;
}

bool can_be_made(const std::vector<ContainerMount>& mounts, std::string_view directory) {
  for (const ContainerMount& mount : mounts) {
    const bool is_writable = mount.kind == Kind::kBind || mount.kind == Kind::kTmpfs;
    if (is_writable && directory.starts_with(mount.target) &&
        (directory.size() == mount.target.size() || directory[mount.target.size()] == '/')) {
      return true;
    }
  }
  return false;
}

}  // namespace trainyard::instance
