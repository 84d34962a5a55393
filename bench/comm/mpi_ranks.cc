// SPDX-License-Identifier: Apache-2.0
// The peer of ranks.cc: the same operations, sizes, values and checks by Open MPI, under mpirun.
//   mpi_ranks KIND BYTES REPEATS RUNS
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <mpi.h>

namespace {

float input_at(std::size_t i, int rank) {
  return static_cast<float>(i % 13) + static_cast<float>(rank);
}

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "mpi_ranks: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (count != 5) {
    die("usage: mpi_ranks KIND BYTES REPEATS RUNS");
  }
  const std::string kind = words[1];
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t whole = std::strtoull(words[2], nullptr, 10) / sizeof(float) / ranks * ranks;
  const std::size_t part = whole / ranks;
  const std::size_t repeats = std::strtoull(words[3], nullptr, 10);
  const std::size_t runs = std::strtoull(words[4], nullptr, 10);
  std::vector<float> input(kind == "all_gather" ? part : whole);
  std::vector<float> output(kind == "reduce_scatter" ? part : whole, -1.0F);
  for (std::size_t i = 0; i < input.size(); ++i) {
    input[i] = input_at(i, rank);
  }
  if (kind == "broadcast" && rank == 0) {
    output = input;
  }
  const auto operate = [&] {
    const int whole_count = static_cast<int>(whole);
    const int part_count = static_cast<int>(part);
    if (kind == "all_reduce") {
      MPI_Allreduce(input.data(), output.data(), whole_count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (kind == "all_gather") {
      MPI_Allgather(input.data(), part_count, MPI_FLOAT, output.data(), part_count, MPI_FLOAT,
                    MPI_COMM_WORLD);
    } else if (kind == "reduce_scatter") {
      MPI_Reduce_scatter_block(input.data(), output.data(), part_count, MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD);
    } else if (kind == "all_to_all") {
      MPI_Alltoall(input.data(), part_count, MPI_FLOAT, output.data(), part_count, MPI_FLOAT,
                   MPI_COMM_WORLD);
    } else if (kind == "broadcast") {
      MPI_Bcast(output.data(), whole_count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    } else {
      die("no such kind");
    }
  };
  const auto sum = [&](std::size_t i) {
    return static_cast<float>(size) * input_at(i, 0) + static_cast<float>(size * (size - 1)) / 2.0F;
  };
  const auto expected = [&](std::size_t i) {
    const auto own = static_cast<std::size_t>(rank) * part;
    return kind == "all_reduce"       ? sum(i)
           : kind == "reduce_scatter" ? sum(own + i)
           : kind == "all_gather"     ? input_at(i % part, static_cast<int>(i / part))
           : kind == "all_to_all"     ? input_at(own + i % part, static_cast<int>(i / part))
                                      : input_at(i, 0);
  };
  std::string seconds;
  for (std::size_t run = 0; run <= runs; ++run) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (std::size_t i = 0; i < repeats; ++i) {
      operate();
    }
    const double took = (MPI_Wtime() - start) / static_cast<double>(repeats);
    for (std::size_t i = 0; i < output.size(); ++i) {
      if (output[i] != expected(i)) {
        die("wrong result");
      }
    }
    if (kind != "broadcast" || rank != 0) {
      output.assign(output.size(), -1.0F);
    }
    if (run > 0) {
      char text[32];
      std::snprintf(text, sizeof(text), "%s%.9g", seconds.empty() ? "" : ", ", took);
      seconds += text;
    }
  }
  if (rank == 0) {
    std::printf("{\"seconds\": [%s]}\n", seconds.c_str());
  }
  MPI_Finalize();
  return 0;
}
