// SPDX-License-Identifier: Apache-2.0
#include "instance/run/container_mounts.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using sandbox::ContainerMount;
using Kind = ContainerMount::Kind;

std::size_t position_of(const std::vector<ContainerMount>& mounts, const std::string& target) {
  const auto found = std::find_if(mounts.begin(), mounts.end(), [&](const ContainerMount& mount) {
    return mount.target == target;
  });
  return static_cast<std::size_t>(found - mounts.begin());
}

TEST(ContainerMounts, PutOnlyTheInstancesOwnDevicesIntoAFreshDev) {
  ContainerPlaces places;
  places.scratch = "/scratch";
  places.devices = {{"/srv/gpus/gpu3", "/dev/gpu3"}};
  const std::vector<ContainerMount> mounts = container_mounts(places);
  const std::size_t dev = position_of(mounts, "/dev");
  const std::size_t gpu = position_of(mounts, "/dev/gpu3");
  ASSERT_LT(gpu, mounts.size());
  EXPECT_EQ(mounts[dev].kind, Kind::kDev);
  EXPECT_LT(dev, gpu);
  EXPECT_EQ(mounts[gpu].kind, Kind::kDevice);
  EXPECT_EQ(mounts[gpu].source, "/srv/gpus/gpu3");
  EXPECT_EQ(std::count_if(mounts.begin(), mounts.end(),
                          [](const auto& mount) { return mount.kind == Kind::kDevice; }),
            1);
}

TEST(ContainerMounts, GiveNoDevicesToACpuInstance) {
  ContainerPlaces places;
  places.scratch = "/scratch";
  for (const ContainerMount& mount : container_mounts(places)) {
    EXPECT_NE(mount.kind, Kind::kDevice) << mount.target;
  }
}

TEST(ContainerMounts, HideTheMachinesSecrets) {
  ContainerPlaces places;
  places.scratch = "/scratch";
  places.home = "/srv/trainyard";
  places.secret_files = {"/etc/shadow"};
  places.secret_directories = {"/etc/ssh"};
  const std::vector<ContainerMount> mounts = container_mounts(places);
  EXPECT_EQ(mounts.at(position_of(mounts, "/etc/shadow")).source, "/dev/null");
  EXPECT_EQ(mounts.at(position_of(mounts, "/etc/ssh")).kind, Kind::kTmpfs);
  EXPECT_EQ(mounts.at(position_of(mounts, "/srv/trainyard")).kind, Kind::kTmpfs);
  EXPECT_EQ(mounts.at(position_of(mounts, "/opt/ml")).source, "/scratch/ml");
}

TEST(ContainerMounts, HideTheHomeOfWhoRunsItWithoutRoot) {
  ContainerPlaces places;
  places.scratch = "/data/me/state/run/job/1/algo-1";
  places.user_home = "/data/me";
  places.home = "/data/me/state";
  places.python_environment = "/data/me/env";
  const std::vector<ContainerMount> mounts = container_mounts(places);
  EXPECT_EQ(mounts.at(position_of(mounts, "/data/me")).kind, Kind::kTmpfs);
  EXPECT_LT(position_of(mounts, "/data/me"), position_of(mounts, "/data/me/state"));
  EXPECT_LT(position_of(mounts, "/data/me"), position_of(mounts, "/data/me/env"));
}

TEST(ContainerMounts, ShowTheMachinesOptAroundItsOwnDirectory) {
  ContainerPlaces places;
  places.scratch = "/scratch";
  places.own_opt = true;
  places.opt = {{"cuda-12", ""}, {"cuda", "/opt/cuda-12"}};
  const std::vector<ContainerMount> mounts = container_mounts(places);
  EXPECT_EQ(mounts.at(position_of(mounts, "/opt")).kind, Kind::kTmpfs);
  EXPECT_EQ(mounts.at(position_of(mounts, "/opt/cuda-12")).kind, Kind::kReadOnlyBind);
  EXPECT_EQ(mounts.at(position_of(mounts, "/opt/cuda")).kind, Kind::kSymlink);
  EXPECT_EQ(mounts.at(position_of(mounts, "/opt/cuda")).source, "/opt/cuda-12");
  EXPECT_LT(position_of(mounts, "/opt"), position_of(mounts, "/opt/ml"));
}

}  // namespace
}  // namespace trainyard::instance
