// Why a budget cannot be met: the moment that needs most, and what cannot be moved then.
#ifndef EBBTIDE_SRC_PLAN_CERTIFICATE_H_
#define EBBTIDE_SRC_PLAN_CERTIFICATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/plan.h"
#include "src/plan/timeline.h"

namespace ebt::plan {

struct Certificate {
  struct Blocks {  // of one site, that are on the device at the moment and cannot leave it
    uint64_t site = 0;
    std::string label;
    uint64_t bytes = 0;
    uint64_t blocks = 0;
    std::string why;
  };
  uint64_t smallest_budget = 0;  // that can be met; 0: this one can be
  bool in_warm_up = false;       // the moment is before the first steady step
  uint32_t launch = 0;           // of the step (of the warm-up): the moment is just before it
  std::string kernel;            // of that launch
  uint64_t live_bytes = 0;       // of all that cannot leave then
  std::vector<Blocks> sites;     // the one with most bytes first
};

// `tiers`: with everything on the host that can be. `named`: of each Lived, whether the user has
// pinned it. `packed_bytes`: of device memory that these tiers need; `besides`: what is not
// planned.
Certificate Certify(const profile::Profile& profile, const Timeline& timeline,
                    const std::vector<Tier>& tiers, const std::vector<bool>& pinned,
                    uint64_t packed_bytes, uint64_t besides);

// One line for people.
std::string CertificateText(const Certificate& certificate, uint64_t budget);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_CERTIFICATE_H_
