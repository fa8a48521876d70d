#include "src/plan/envelope.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace ebt::plan {
namespace {

// How far two sequences are searched for where they agree again, in elements that one alone has.
constexpr size_t kReach = 192;
// Elements that have to agree where two sequences seem to: of chains of equal symbols the first
// ones agree by chance. Each that does not counts as one that a sequence alone has.
constexpr size_t kConfirming = 8;
// Places, in order of their begin, that one is tried to be joined with.
constexpr size_t kNeighbours = 24;
constexpr size_t kMostMembers = 256;
constexpr int kMostRounds = 32;
// Steps that say how large rooms must be while they are being made.
constexpr size_t kAskedSteps = 16;
// Additions of sizes, which bound the time of large jobs.
constexpr uint64_t kWork = 400'000'000;

using Symbols = std::vector<uint64_t>;

// Where each symbol comes next in a sequence that is gone through from the front.
class Finder {
 public:
  explicit Finder(const Symbols& symbols) : size_(symbols.size()) {
    for (size_t i = 0; i < symbols.size(); ++i) places_[symbols[i]].all.push_back(i);
  }

  // The first place at or behind `from`, which never decreases; size if there is none.
  size_t Next(uint64_t symbol, size_t from) {
    const auto found = places_.find(symbol);
    if (found == places_.end()) return size_;
    Places& places = found->second;
    while (places.next < places.all.size() && places.all[places.next] < from) ++places.next;
    return places.next < places.all.size() ? places.all[places.next] : size_;
  }

 private:
  struct Places {
    std::vector<size_t> all;
    size_t next = 0;
  };
  size_t size_;
  absl::flat_hash_map<uint64_t, Places> places_;
};

// Where two sequences agree again: so many elements of each come before.
struct Resumed {
  size_t known = 0, step = 0;
};

// How many elements agree from there on, up to kConfirming. Both at their ends agree in all.
size_t Agreeing(const Symbols& known, size_t i, const Symbols& step, size_t j) {
  for (size_t agreeing = 0; agreeing < kConfirming; ++agreeing) {
    const bool known_ends = i + agreeing == known.size(), step_ends = j + agreeing == step.size();
    if (known_ends && step_ends) break;
    if (known_ends || step_ends || known[i + agreeing] != step[j + agreeing]) return agreeing;
  }
  return kConfirming;
}

std::optional<Resumed> Resume(const Symbols& known, size_t i, const Symbols& step, size_t j,
                              Finder& finder) {
  std::optional<Resumed> best;
  size_t least = kReach + kConfirming;
  for (size_t b = 0; b < least && j + b < step.size(); ++b) {
    const size_t at = finder.Next(step[j + b], i);
    if (at == known.size()) continue;
    const size_t cost = at - i + b + kConfirming - Agreeing(known, at, step, j + b);
    if (cost < least) least = cost, best = {at - i, b};
  }
  return best;
}

// The place in `known` of each element of `step`; of those that it has not, the place that they
// come before, with `is_new` set.
struct Aligned {
  size_t place = 0;
  bool is_new = false;
};

std::vector<Aligned> Align(const Symbols& known, const Symbols& step) {
  Finder finder(known);
  std::vector<Aligned> out;
  out.reserve(step.size());
  size_t i = 0;
  while (out.size() < step.size()) {
    const size_t j = out.size();
    if (i < known.size() && known[i] == step[j]) {
      out.push_back({i++, false});
      continue;
    }
    const auto resumed = Resume(known, i, step, j, finder);
    const size_t added = resumed ? resumed->step : 1;
    for (size_t b = 0; b < added; ++b) out.push_back({i, true});
    if (resumed) i += resumed->known;
  }
  return out;
}

// Sweeps the steps' bytes of some members over time.
class Sweep {
 public:
  Sweep(const std::vector<Varying>& varying, const std::vector<size_t>& steps)
      : varying_(varying), steps_(steps) {}

  // Most bytes of a step that are live at once. `work` counts additions.
  uint64_t Most(const std::vector<uint32_t>& members, uint64_t& work) {
    ends_.assign(members.begin(), members.end());
    std::sort(ends_.begin(), ends_.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(varying_[a].end, a) < std::pair(varying_[b].end, b);
    });
    sums_.assign(steps_.size(), 0);
    work += 2 * members.size() * steps_.size();
    uint64_t most = 0;
    size_t ended = 0;
    for (uint32_t i : members) {  // by begin: the order of the varying
      for (; varying_[ends_[ended]].end <= varying_[i].begin; ++ended) {
        for (size_t k = 0; k < steps_.size(); ++k) {
          sums_[k] -= varying_[ends_[ended]].bytes[steps_[k]];
        }
      }
      for (size_t k = 0; k < steps_.size(); ++k) {
        sums_[k] += varying_[i].bytes[steps_[k]];
        most = std::max(most, sums_[k]);
      }
    }
    return most;
  }

 private:
  const std::vector<Varying>& varying_;
  const std::vector<size_t>& steps_;
  std::vector<uint64_t> sums_;
  std::vector<uint32_t> ends_;
};

double Area(const Room& room) { return double(room.bytes) * double(room.end - room.begin); }

std::vector<uint32_t> Together(const Room& a, const Room& b) {
  std::vector<uint32_t> members;
  members.reserve(a.members.size() + b.members.size());
  std::merge(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
             std::back_inserter(members));
  return members;
}

class RoomMaker {
 public:
  explicit RoomMaker(const std::vector<Varying>& varying)
      : varying_(varying), asked_(AskedSteps()), sweep_(varying, asked_) {}

  std::vector<Room> Make() {
    for (uint32_t i = 0; i < varying_.size(); ++i) {
      const Varying& v = varying_[i];
      rooms_.push_back({{i}, *std::max_element(v.bytes.begin(), v.bytes.end()), v.begin, v.end});
    }
    for (int round = 0; round < kMostRounds && work_ < kWork && JoinNeighbours(); ++round) {
    }
    for (Room& room : rooms_) room.bytes = RoomBytes(varying_, room.members);
    return std::move(rooms_);
  }

 private:
  // Evenly spread over all.
  std::vector<size_t> AskedSteps() const {
    const size_t steps = varying_.empty() ? 0 : varying_.front().bytes.size();
    const size_t asked = std::min(steps, kAskedSteps);
    std::vector<size_t> out;
    for (size_t i = 0; i < asked; ++i) out.push_back(i * steps / asked);
    return out;
  }

  // Joins each room with that neighbour which saves most. False: nothing was joined.
  bool JoinNeighbours() {
    std::sort(rooms_.begin(), rooms_.end(), [](const Room& a, const Room& b) {
      return std::tie(a.begin, a.end, a.members) < std::tie(b.begin, b.end, b.members);
    });
    std::vector<bool> gone(rooms_.size(), false);
    bool joined = false;
    for (size_t i = 0; i < rooms_.size() && work_ < kWork; ++i) {
      if (gone[i]) continue;
      Room best;
      size_t with = i;
      double most_saved = 0;
      for (size_t j = i + 1; j < std::min(rooms_.size(), i + 1 + kNeighbours); ++j) {
        if (gone[j]) continue;
        double saved = 0;
        auto room = Joined(rooms_[i], rooms_[j], saved);
        if (room && saved > most_saved) most_saved = saved, with = j, best = *std::move(room);
      }
      if (with == i) continue;
      rooms_[i] = std::move(best);
      gone[with] = joined = true;
    }
    std::vector<Room> left;
    for (size_t i = 0; i < rooms_.size(); ++i) {
      if (!gone[i]) left.push_back(std::move(rooms_[i]));
    }
    rooms_ = std::move(left);
    return joined;
  }

  std::optional<Room> Joined(const Room& a, const Room& b, double& saved) {
    if (a.members.size() + b.members.size() > kMostMembers) return std::nullopt;
    Room room{{}, std::max(a.bytes, b.bytes), std::min(a.begin, b.begin), std::max(a.end, b.end)};
    const double parts = Area(a) + Area(b);
    // It cannot be smaller than the larger part.
    if (Area(room) >= parts) return std::nullopt;
    room.members = Together(a, b);
    room.bytes = sweep_.Most(room.members, work_);
    saved = parts - Area(room);
    return room;
  }

  const std::vector<Varying>& varying_;
  const std::vector<size_t> asked_;
  Sweep sweep_;
  std::vector<Room> rooms_;
  uint64_t work_ = 0;
};

// The lowest place of `bytes` that is free between live blocks (offset -> bytes).
uint64_t LowestFree(const std::map<uint64_t, uint64_t>& live, uint64_t bytes) {
  uint64_t at = 0;
  for (const auto& [offset, size] : live) {
    if (offset - at >= bytes) break;
    at = offset + size;
  }
  return at;
}

uint64_t RoomBytesIn(const std::vector<Varying>& varying, const std::vector<uint32_t>& members,
                     const std::vector<uint32_t>& by_end, size_t step) {
  std::map<uint64_t, uint64_t> live;
  std::map<uint32_t, uint64_t> place_of;
  uint64_t top = 0;
  size_t ended = 0;
  for (uint32_t i : members) {
    for (; varying[by_end[ended]].end <= varying[i].begin; ++ended) {
      const auto place = place_of.find(by_end[ended]);
      if (place != place_of.end()) live.erase(place->second);
    }
    const uint64_t bytes = varying[i].bytes[step];
    if (bytes == 0) continue;
    const uint64_t at = LowestFree(live, bytes);
    live[at] = bytes;
    place_of[i] = at;
    top = std::max(top, at + bytes);
  }
  return top;
}

}  // namespace

Merged MergeSequences(const std::vector<std::vector<uint64_t>>& sequences, size_t model) {
  Merged out;
  out.place_of.resize(sequences.size());
  // Places have numbers of their own until all are known; `order` has them in order.
  std::vector<uint32_t> order;
  std::vector<uint64_t> known = sequences[model];
  for (uint32_t i = 0; i < known.size(); ++i) order.push_back(i);
  out.place_of[model] = order;
  uint32_t numbers = uint32_t(known.size());
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (s == model) continue;
    const auto aligned = Align(known, sequences[s]);
    std::vector<uint32_t> longer;
    std::vector<uint64_t> symbols;
    size_t copied = 0;
    const auto copy_until = [&](size_t end) {
      for (; copied < end; ++copied) {
        longer.push_back(order[copied]);
        symbols.push_back(known[copied]);
      }
    };
    for (size_t j = 0; j < aligned.size(); ++j) {
      copy_until(aligned[j].place);
      if (!aligned[j].is_new) {
        out.place_of[s].push_back(order[aligned[j].place]);
        continue;
      }
      out.place_of[s].push_back(numbers);
      longer.push_back(numbers++);
      symbols.push_back(sequences[s][j]);
    }
    copy_until(order.size());
    order = std::move(longer);
    known = std::move(symbols);
  }
  std::vector<uint32_t> place(numbers);
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (auto& places : out.place_of) {
    for (uint32_t& at : places) at = place[at];
  }
  out.symbols = std::move(known);
  return out;
}

std::vector<Room> MakeRooms(const std::vector<Varying>& varying) {
  return RoomMaker(varying).Make();
}

uint64_t RoomBytes(const std::vector<Varying>& varying, const std::vector<uint32_t>& members) {
  std::vector<uint32_t> by_end = members;
  std::sort(by_end.begin(), by_end.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(varying[a].end, a) < std::pair(varying[b].end, b);
  });
  uint64_t most = 0;
  for (size_t step = 0; !members.empty() && step < varying[members[0]].bytes.size(); ++step) {
    most = std::max(most, RoomBytesIn(varying, members, by_end, step));
  }
  return most;
}

}  // namespace ebt::plan
