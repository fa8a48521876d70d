// A training job's recording made on paper, large and with names as nobody would choose them.
#ifndef EBBTIDE_TESTS_PAGE_JOB_H_
#define EBBTIDE_TESTS_PAGE_JOB_H_

#include <cstdint>
#include <vector>

#include "src/profile/kinds.h"
#include "src/profile/types.h"

namespace ebt::page {

struct JobShape {
  int layers = 12;
  int steps = 4;
  int operators = 6;  // of a layer: each makes an activation and a temporary
  bool hostile = false;
  bool times = true;
};

struct Job {
  profile::Profile profile;
  std::vector<profile::Kind> kinds;  // of each block, as it was made
};

// Every step: an input; forward, an activation an operator that is kept and a temporary that is
// not; backward, a gradient a layer, activations freed; the optimizer, which reads its state. A
// launch is an operator. Blocks are placed first-fit, so that addresses show holes.
Job MakeJob(const JobShape& shape);

}  // namespace ebt::page

#endif  // EBBTIDE_TESTS_PAGE_JOB_H_
