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

void Link::Progress(double ms) {
  const Job in = Head(Direction::kIn), out = Head(Direction::kOut);
  const bool in_place = in_place_left_ > 0;
  const bool copies = in != kNoJob || out != kNoJob;
  const double share = in_place ? kShared : 1;
  auto rate_of = [&](Job job, Job other) {
    if (job == kNoJob) return 0.0;
    return share * (other == kNoJob ? jobs_[job].alone : jobs_[job].both);
  };
  const double in_rate = rate_of(in, out), out_rate = rate_of(out, in);
  const double in_place_rate = device_.in_place * (copies ? kShared : 1);
  if (in != kNoJob) ms = std::min(ms, Milliseconds(jobs_[in].left, in_rate));
  if (out != kNoJob) ms = std::min(ms, Milliseconds(jobs_[out].left, out_rate));
  if (in_place) ms = std::min(ms, Milliseconds(in_place_left_, in_place_rate));
  now_ += ms;
  Take(Direction::kIn, in, in_rate, ms);
  Take(Direction::kOut, out, out_rate, ms);
  if (!in_place) return;
  in_place_left_ -= in_place_rate * ms / 1e3;
  if (in_place_left_ <= kNothing || in_place_rate <= 0) in_place_left_ = 0;
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

void Link::InPlace(double bytes) {
  in_place_left_ = bytes;
  while (in_place_left_ > 0) Progress(kForever);
}

}  // namespace ebt::plan
