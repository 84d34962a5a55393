// SPDX-License-Identifier: Apache-2.0
// Halving and doubling (Rabenseifner 2004; Thakur, Rabenseifner, Gropp 2005): log2 n hops. Halving:
// ranks at half the world's distance exchange halves and combine, then at a quarter's distance
// quarters, until each has its part; doubling is the way back. A world that is no power of two
// folds: the first ranks are pairs, in which the second one works for both.
//
// Buffers that are too long for one message cannot be cut like this, because a piece of a half does
// not lie in the same piece of the whole. For them each part goes by itself, by the same exchanges:
// seen from one part, halving is a binomial tree towards its owner, doubling the tree back.
#include <algorithm>
#include <bit>

#include "comm/schedule/internal/build.h"
#include "comm/schedule/internal/tree.h"

namespace trainyard::comm {
namespace {

// The world as a power of two of seats. The first `folded` seats have two ranks: 2 s, the guest,
// and 2 s + 1.
struct Fold {
  std::int32_t seats = 1;
  std::int32_t folded = 0;
  std::int32_t seat = 0;  // of this rank
  bool is_guest = false;  // this rank has another one work for it

  std::int32_t rank_at(std::int32_t s) const { return s < folded ? 2 * s + 1 : s + folded; }
  bool has_guest(std::int32_t s) const { return s < folded; }
  std::int32_t first_rank(std::int32_t s) const { return s < folded ? 2 * s : s + folded; }
  std::int32_t levels() const { return std::countr_zero(static_cast<std::uint32_t>(seats)); }
};

Fold fold_of(const World& world) {
  const auto size = static_cast<std::uint32_t>(world.size);
  Fold fold{.seats = static_cast<std::int32_t>(std::bit_floor(size))};
  fold.folded = world.size - fold.seats;
  const bool is_paired = world.rank < 2 * fold.folded;
  fold.seat = is_paired ? world.rank / 2 : world.rank - fold.folded;
  fold.is_guest = is_paired && world.rank % 2 == 0;
  return fold;
}

// The tree of one part: towards `owner`, who is at a seat or the guest of one.
Tree tree_of(const Fold& fold, std::int32_t owner_seat, bool owner_is_guest) {
  Tree tree{.height = fold.levels() + (fold.folded > 0 ? 1 : 0)};
  const std::int32_t host = fold.rank_at(owner_seat);
  const std::int32_t lift = owner_is_guest ? 1 : 0;
  tree.height += lift;
  if (fold.is_guest) {
    if (owner_is_guest && fold.seat == owner_seat) {
      tree.children = {host};
      return tree;
    }
    tree.parent = fold.rank_at(fold.seat);
    tree.depth = std::popcount(static_cast<std::uint32_t>(fold.seat ^ owner_seat)) + lift + 1;
    return tree;
  }
  const auto x = static_cast<std::uint32_t>(fold.seat ^ owner_seat);
  tree.depth = std::popcount(x) + lift;
  if (x != 0) {
    tree.parent = fold.rank_at(static_cast<std::int32_t>(x & (x - 1)) ^ owner_seat);
  } else if (owner_is_guest) {
    tree.parent = fold.first_rank(owner_seat);
  }
  const std::uint32_t lowest = x == 0 ? static_cast<std::uint32_t>(fold.seats) : x & (0 - x);
  for (std::uint32_t bit = 1; bit < lowest; bit *= 2) {
    tree.children.push_back(fold.rank_at(static_cast<std::int32_t>(x | bit) ^ owner_seat));
  }
  if (fold.has_guest(fold.seat) && !(owner_is_guest && fold.seat == owner_seat)) {
    tree.children.push_back(fold.first_rank(fold.seat));
  }
  std::sort(tree.children.begin(), tree.children.end());
  return tree;
}

// Part by part.
Schedule make_cut(const Request& request, const World& world, const Fold& fold) {
  Schedule schedule{.algorithm = "halving_doubling", .stride = 2};
  if (request.kind == OpKind::kAllReduce) {
    const auto seats = static_cast<std::uint64_t>(fold.seats);
    schedule.longest = part_of(Region::kInput, request.count, seats, 0).length;
    schedule.in_flight = 2 * seats;
    for (std::int32_t s = 0; s < fold.seats; ++s) {
      const auto index = static_cast<std::uint64_t>(s);
      add_all_reduce(schedule, tree_of(fold, s, false),
                     {.own = part_of(Region::kInput, request.count, seats, index),
                      .store = part_of(Region::kOutput, request.count, seats, index)});
    }
    return schedule;
  }
  const std::vector<Slice> parts = parts_of(request, world);
  schedule.longest = longest_of(parts);
  schedule.in_flight = parts.size();
  for (std::int32_t s = 0; s < fold.seats; ++s) {
    for (std::int32_t owner = fold.first_rank(s); owner <= fold.rank_at(s); ++owner) {
      const Slice& part = parts[static_cast<std::size_t>(owner)];
      const Tree tree = tree_of(fold, s, owner != fold.rank_at(s));
      if (request.kind == OpKind::kReduceScatter) {
        add_reduce(schedule, tree, {.own = part, .store = alone(Region::kOutput, part)}, 0);
        continue;
      }
      if (!tree.parent) {
        add(schedule, {.own = alone(Region::kInput, part), .store = at(Region::kOutput, part)});
      }
      add_broadcast(schedule, tree,
                    {.own = alone(Region::kInput, part), .store = at(Region::kOutput, part)}, 0);
    }
  }
  return schedule;
}

// Seat by seat, what is exchanged as one slice.
class Whole {
 public:
  Whole(const Request& request, const World& world, const Fold& fold)
      : fold_(fold), by_seat_(request.kind == OpKind::kAllReduce) {
    schedule.algorithm = "halving_doubling";
    schedule.in_flight = 4;
    if (!by_seat_) {
      parts_ = parts_of(request, world);
    }
    for (std::uint64_t s = 0; by_seat_ && s < static_cast<std::uint64_t>(fold.seats); ++s) {
      parts_.push_back(
          part_of(Region::kInput, request.count, static_cast<std::uint64_t>(fold.seats), s));
    }
  }

  Schedule schedule;

  // Levels 0 to levels() and one before for the guests; the results are in `sums`.
  void halve(Region sums) {
    const std::int32_t base = fold_.folded > 0 ? 1 : 0;
    Region source = Region::kInput;
    if (fold_.has_guest(fold_.seat)) {
      add(schedule, {.from = {fold_.first_rank(fold_.seat)},
                     .own = all(source),
                     .store = all(sums),
                     .level = 1});
      source = sums;
    }
    for (std::int32_t width = fold_.seats / 2, level = base; width > 0; width /= 2, ++level) {
      const std::int32_t partner = fold_.rank_at(fold_.seat ^ width);
      add(schedule, {.own = beside(source, width), .to = {partner}, .level = level});
      add(schedule, {.from = {partner},
                     .own = around(source, width),
                     .store = around(sums, width),
                     .level = level + 1,
                     .finish = width == 1});
      source = sums;
    }
  }

  // From `level` on: everyone has what it holds of kOutput, and gets the rest.
  void double_up(std::int32_t level) {
    for (std::int32_t width = 1; width < fold_.seats; width *= 2, ++level) {
      const std::int32_t partner = fold_.rank_at(fold_.seat ^ width);
      add(schedule, {.own = around(Region::kOutput, width), .to = {partner}, .level = level});
      add(schedule,
          {.from = {partner}, .store = beside(Region::kOutput, width), .level = level + 1});
    }
  }

  Slice all(Region region) const { return stretch(region, 0, fold_.seats); }
  Slice part(Region region, std::int32_t rank) const {
    return at(region, parts_[static_cast<std::size_t>(rank)]);
  }
  // Everything before and after the part of `rank`.
  std::vector<Slice> without(Region region, std::int32_t rank) const {
    const Slice whole = all(region);
    const Slice& gap = parts_[static_cast<std::size_t>(rank)];
    const std::uint64_t end = gap.offset + gap.length;
    return {{region, 0, gap.offset}, {region, end, whole.length - end}};
  }

 private:
  // The `width` seats with this one among them, aligned; and those beside them.
  Slice around(Region region, std::int32_t width) const {
    return stretch(region, fold_.seat & ~(width - 1), width);
  }
  Slice beside(Region region, std::int32_t width) const {
    return stretch(region, (fold_.seat ^ width) & ~(width - 1), width);
  }
  Slice stretch(Region region, std::int32_t first, std::int32_t width) const {
    const std::int32_t last = first + width - 1;
    const auto begin = static_cast<std::size_t>(by_seat_ ? first : fold_.first_rank(first));
    const auto end = static_cast<std::size_t>(by_seat_ ? last : fold_.rank_at(last));
    const std::uint64_t offset = parts_[begin].offset;
    return {region, offset, parts_[end].offset + parts_[end].length - offset};
  }

  const Fold& fold_;
  bool by_seat_;
  std::vector<Slice> parts_;  // of ranks, or of seats
};

Schedule whole_all_reduce(Whole& whole, const Fold& fold) {
  const std::int32_t end = 1 + 2 * fold.levels();
  const std::int32_t partner = fold.is_guest ? fold.rank_at(fold.seat) : fold.first_rank(fold.seat);
  if (fold.is_guest) {
    add(whole.schedule, {.own = whole.all(Region::kInput), .to = {partner}});
    add(whole.schedule, {.from = {partner}, .store = whole.all(Region::kOutput), .level = end + 1});
    return std::move(whole.schedule);
  }
  whole.halve(Region::kOutput);
  whole.double_up(fold.levels() + (fold.folded > 0 ? 1 : 0));
  if (fold.has_guest(fold.seat)) {
    add(whole.schedule, {.own = whole.all(Region::kOutput), .to = {partner}, .level = end});
  }
  return std::move(whole.schedule);
}

Schedule whole_reduce_scatter(Whole& whole, const Fold& fold, std::int32_t rank) {
  const std::int32_t end = fold.levels() + (fold.folded > 0 ? 1 : 0);
  const Slice out = alone(Region::kOutput, whole.part(Region::kOutput, rank));
  whole.schedule.scratch = whole.all(Region::kScratch).length;
  if (fold.is_guest) {
    const std::int32_t host = fold.rank_at(fold.seat);
    add(whole.schedule, {.own = whole.all(Region::kInput), .to = {host}});
    add(whole.schedule, {.from = {host}, .store = out, .level = end + 1});
    return std::move(whole.schedule);
  }
  whole.halve(Region::kScratch);
  if (fold.has_guest(fold.seat)) {
    const std::int32_t guest = fold.first_rank(fold.seat);
    add(whole.schedule, {.own = whole.part(Region::kScratch, guest), .to = {guest}, .level = end});
  }
  add(whole.schedule, {.own = whole.part(Region::kScratch, rank), .store = out, .level = end});
  return std::move(whole.schedule);
}

Schedule whole_all_gather(Whole& whole, const Fold& fold, std::int32_t rank) {
  const std::int32_t base = fold.folded > 0 ? 1 : 0;
  const std::int32_t end = base + fold.levels();
  const Slice in = alone(Region::kInput, whole.part(Region::kInput, rank));
  Step own{.own = in, .store = whole.part(Region::kOutput, rank)};
  if (fold.is_guest) {
    const std::int32_t host = fold.rank_at(fold.seat);
    own.to = {host};
    add(whole.schedule, own);
    for (const Slice& rest : whole.without(Region::kOutput, rank)) {
      add(whole.schedule, {.from = {host}, .store = rest, .level = end + 1});
    }
    return std::move(whole.schedule);
  }
  add(whole.schedule, own);
  const std::int32_t guest = fold.first_rank(fold.seat);
  if (fold.has_guest(fold.seat)) {
    add(whole.schedule, {.from = {guest}, .store = whole.part(Region::kOutput, guest), .level = 1});
  }
  whole.double_up(base);
  if (fold.has_guest(fold.seat)) {
    for (const Slice& rest : whole.without(Region::kOutput, guest)) {
      add(whole.schedule, {.own = rest, .to = {guest}, .level = end});
    }
  }
  return std::move(whole.schedule);
}

Schedule make_whole(const Request& request, const World& world, const Fold& fold) {
  Whole whole(request, world, fold);
  if (request.kind == OpKind::kAllReduce) {
    return whole_all_reduce(whole, fold);
  }
  return request.kind == OpKind::kReduceScatter ? whole_reduce_scatter(whole, fold, world.rank)
                                                : whole_all_gather(whole, fold, world.rank);
}

// In round i everyone tells the rank 2^i ahead what it knows, and has heard of 2^(i + 1) then.
Schedule make_dissemination(const World& world) {
  Schedule schedule{.algorithm = "halving_doubling", .in_flight = 2};
  for (std::int32_t distance = 1, level = 0; distance < 2 * world.size; distance *= 2, ++level) {
    Step step{.level = level, .token = true};
    if (level > 0) {
      step.from = {(world.rank + world.size - distance / 2) % world.size};
    }
    if (distance < world.size) {
      step.to = {(world.rank + distance) % world.size};
    }
    add(schedule, step);
  }
  return schedule;
}

}  // namespace

Schedule make_halving_doubling(const Request& request, const World& world) {
  switch (request.kind) {
    case OpKind::kBarrier:
      return make_dissemination(world);
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
    case OpKind::kAllGather: {
      const Fold fold = fold_of(world);
      return total_of(request) <= kUncutElements ? make_whole(request, world, fold)
                                                 : make_cut(request, world, fold);
    }
    default:
      return make_binomial(request, world);
  }
}

}  // namespace trainyard::comm
