#include "src/plan/pack_search.h"

#include <algorithm>
#include <numeric>

namespace ebt::plan {
namespace {

// Rankings by lifetime or area, with or without what is crowded first.
constexpr uint64_t kRankings = 4;
// From the second round of rankings on, sizes are blurred by up to this factor and its inverse.
constexpr double kBlur = 1.35;
// A failure counts that much more than the one before it.
constexpr double kWeightGrowth = 1.02;
constexpr double kMostWeight = 1e100;
constexpr uint64_t kNodesPerStop = 64;

double LifeSpan(const Item& item) {
  double sum = 0;
  for (const Interval& i : item.live) sum += i.empty() ? 0 : double(i.end - i.begin);
  return sum;
}

}  // namespace

PackSearch::PackSearch(const std::vector<Item>& items)
    : board_(items), ranks_(items.size()), seen_(board_.sections(), 0) {
  for (const Item& item : items) {
    lifetimes_.push_back(LifeSpan(item));
    bytes_.push_back(RoundedBytes(item));
  }
}

PackSearch::Outcome PackSearch::Try(uint64_t capacity, uint64_t nodes,
                                    const std::function<bool()>& stop) {
  board_.SetCapacity(capacity);
  RankItems();
  weights_.assign(board_.sections(), 0);
  for (uint32_t s = 0; s < board_.sections(); ++s) {
    // Below the weight of any failure.
    weights_[s] = double(board_.Left(s)) / (2 * double(capacity) + 1);
    if (board_.Left(s) > capacity) return Outcome::kImpossible;
  }
  next_weight_ = 1;
  nodes_left_ = nodes;
  stop_ = stop ? &stop : nullptr;
  ++restarts_;
  std::vector<uint32_t> all(board_.items());
  std::iota(all.begin(), all.end(), 0u);
  const bool solved = SolveGroups(all);
  if (solved) {
    offsets_.clear();
    peak_ = 0;
    for (uint32_t item : all) {
      offsets_.push_back(board_.Offset(item));
      peak_ = std::max(peak_, offsets_.back() + bytes_[item]);
    }
  }
  board_.Undo(0);
  if (solved) return Outcome::kFits;
  return nodes_left_ > 0 ? Outcome::kImpossible : Outcome::kGaveUp;
}

void PackSearch::RankItems() {
  const uint64_t ranking = restarts_ % kRankings;
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    double blur = 1;
    if (restarts_ >= kRankings) {
      const double random = double(random_()) / double(std::mt19937::max());
      blur = 1 / kBlur + random * (kBlur - 1 / kBlur);
    }
    Rank& rank = ranks_[i];
    rank.size = lifetimes_[i] * (ranking % 2 == 0 ? 1 : double(bytes_[i])) * blur;
    rank.crowd = 0;
    if (ranking < kRankings / 2) continue;
    for (const uint32_t* s = board_.SectionsBegin(i); s != board_.SectionsEnd(i); ++s) {
      rank.crowd = std::max(rank.crowd, double(board_.Left(*s)));
    }
  }
}

bool PackSearch::Before(uint32_t a, uint32_t b) const {
  const uint64_t low_a = board_.Offset(a), low_b = board_.Offset(b);
  return low_a != low_b ? low_a < low_b : ranks_[a] > ranks_[b];
}

// An open item of the section that failed most, or what could still come below that item:
// so no place is built over before all that fits there has been tried.
uint32_t PackSearch::Choose(const std::vector<uint32_t>& members) {
  uint32_t section = PackBoard::kNowhere;
  for (uint32_t item : members) {
    if (!board_.Open(item)) continue;
    for (const uint32_t* s = board_.SectionsBegin(item); s != board_.SectionsEnd(item); ++s) {
      if (seen_[*s] == all_nodes_) continue;
      seen_[*s] = all_nodes_;
      if (section == PackBoard::kNowhere || weights_[*s] > weights_[section]) section = *s;
    }
  }
  uint32_t best = PackBoard::kNowhere;
  if (section == PackBoard::kNowhere) return best;
  for (const auto& [item, slot] : board_.Members(section)) {
    if (!board_.Open(item)) continue;
    if (best == PackBoard::kNowhere || Before(item, best)) best = item;
  }
  for (uint32_t above = PackBoard::kNowhere; above != best;) {
    above = best;
    for (uint32_t item : board_.Neighbours(above)) {
      if (!board_.Open(item) || board_.Offset(item) >= board_.Offset(above)) continue;
      if (best == above || Before(item, best)) best = item;
    }
  }
  return best;
}

void PackSearch::Blame() {
  if (board_.failed_section() != PackBoard::kNowhere) {
    weights_[board_.failed_section()] += next_weight_;
  } else {
    const uint32_t item = board_.failed_item();
    const auto count = double(board_.SectionsEnd(item) - board_.SectionsBegin(item));
    for (const uint32_t* s = board_.SectionsBegin(item); s != board_.SectionsEnd(item); ++s) {
      weights_[*s] += next_weight_ / count;
    }
  }
  next_weight_ *= kWeightGrowth;
  if (next_weight_ < kMostWeight) return;
  for (double& weight : weights_) weight /= kMostWeight;
  next_weight_ /= kMostWeight;
}

// Places all `members`, or leaves the board as it was.
bool PackSearch::Solve(const std::vector<uint32_t>& members) {
  if (nodes_left_ == 0 || --nodes_left_ == 0) return false;
  if (++all_nodes_ % kNodesPerStop == 0 && stop_ != nullptr && (*stop_)()) {
    nodes_left_ = 0;
    return false;
  }
  std::vector<uint32_t> left;
  left.reserve(members.size());
  for (uint32_t item : members) {
    if (!board_.Placed(item)) left.push_back(item);
  }
  if (left.empty()) return true;
  const uint32_t item = Choose(left);
  if (item == PackBoard::kNowhere) return false;
  const bool contested = board_.Contested(item);
  const size_t mark = board_.Mark();
  if (board_.Place(item) && board_.Conclude(left)) {
    if (board_.Splits(item) ? SolveGroups(left) : Solve(left)) return true;
  } else {
    Blame();
  }
  board_.Undo(mark);
  if (nodes_left_ == 0 || !contested) return false;
  if (board_.Defer(item) && board_.Conclude(left)) {
    if (Solve(left)) return true;
  } else {
    Blame();
  }
  board_.Undo(mark);
  return false;
}

// What shares no moment is solved for itself: where one group fails, no other packing of the
// others helps.
bool PackSearch::SolveGroups(const std::vector<uint32_t>& members) {
  const size_t mark = board_.Mark();
  for (const auto& group : board_.Groups(members)) {
    if (Solve(group)) continue;
    board_.Undo(mark);
    return false;
  }
  return true;
}

}  // namespace ebt::plan
