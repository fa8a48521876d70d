#include "src/plan/link.h"

#include <algorithm>

namespace ebt::plan {
namespace {

// Less than a byte is nothing.
constexpr double kNothing = 1e-6;
constexpr double kShared = 0.5;

double Milliseconds(double bytes, double rate) { return rate > 0 ? bytes / rate * 1e3 : 0; }

}  // namespace

Link::Job Link::Copy(Direction direction, uint64_t bytes, bool managed, Job after) {
  const bool in = direction == Direction::kIn;
  Request request{.left = double(bytes), .after = after};
  if (managed) {
    request.alone = in ? device_.managed_in : device_.managed_out;
    request.both = in ? device_.managed_in_both : device_.managed_out_both;
  } else {
    const double share = device_.CopyShare(std::min(bytes, kCopyPiece));
    request.alone = share * (in ? device_.link_in_alone : device_.link_out_alone);
    request.both = std::min(request.alone, in ? device_.link_in : device_.link_out);
  }
  jobs_.push_back(request);
  queues_[size_t(direction)].push_back(jobs_.size() - 1);
  return jobs_.size() - 1;
}

Link::Job Link::Nothing() {
  jobs_.push_back({.done = true});
  return jobs_.size() - 1;
}

Link::Job Link::Head(Direction direction) const {
  const auto& queue = queues_[size_t(direction)];
  if (queue.empty() || !Done(jobs_[queue.front()].after)) return kNoJob;
  return queue.front();
}

void Link::Take(Direction direction, Job job, double rate, double ms) {
  if (job == kNoJob) return;
  Request& request = jobs_[job];
  request.left -= rate * ms / 1e3;
  if (request.left > kNothing && rate > 0) return;
  request.done = true;
  queues_[size_t(direction)].pop_front();
}

void Link::TakeInPlace(size_t way, double rate, double ms) {
  double& left = in_place_left_[way];
  if (left <= 0) return;
  left -= rate * ms / 1e3;
  if (left <= kNothing || rate <= 0) left = 0;
}

void Link::Progress(double ms) {
  const Job heads[2] = {Head(Direction::kIn), Head(Direction::kOut)};
  double copy[2] = {0, 0}, in_place[2] = {0, 0};  // bytes a second
  for (size_t way : {0, 1}) {
    const bool copies = heads[way] != kNoJob, used = in_place_left_[way] > 0;
    const double share = copies && used ? kShared : 1;
    if (used) in_place[way] = share * device_.in_place;
    if (!copies) continue;
    const Request& request = jobs_[heads[way]];
    copy[way] = share * (heads[1 - way] == kNoJob ? request.alone : request.both);
    ms = std::min(ms, Milliseconds(request.left, copy[way]));
  }
  for (size_t way : {0, 1}) {
    if (in_place_left_[way] > 0)
      ms = std::min(ms, Milliseconds(in_place_left_[way], in_place[way]));
  }
  now_ += ms;
  for (size_t way : {0, 1}) {
    Take(Direction(way), heads[way], copy[way], ms);
    TakeInPlace(way, in_place[way], ms);
  }
}

void Link::AdvanceTo(double ms) {
  while (now_ < ms && (Head(Direction::kIn) != kNoJob || Head(Direction::kOut) != kNoJob)) {
    Progress(ms - now_);
  }
  now_ = std::max(now_, ms);
}

void Link::Await(Job job) {
  while (!Done(job)) Progress(kForever);
}

void Link::InPlace(uint64_t in, uint64_t out) {
  in_place_left_ = {double(in), double(out)};
  while (in_place_left_[0] > 0 || in_place_left_[1] > 0) Progress(kForever);
}

}  // namespace ebt::plan
