// Names for reading: of functions, kernels and allocation sites.
#ifndef EBBTIDE_SRC_REPORT_NAMES_H_
#define EBBTIDE_SRC_REPORT_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/callsite/callsite.h"

namespace ebt::report {

// A C++ name as people write it; what is no mangled name comes back as it is.
std::string Demangled(const std::string& name);

// The name of a function or kernel (mangled or not) cut down to what tells it: no return type, no
// parameters, and of template arguments only a short first one:
// "void at::native::vectorized_elementwise_kernel<4, at::F>(int, at::F)" becomes
// "at::native::vectorized_elementwise_kernel<4, ...>".
std::string ShortName(const std::string& name);

// What the sites of a recording are called. No framework is known here: a site with Python frames
// is called by its innermost one (native code below it is what that line led to). Otherwise by
// its innermost native function that is not common: one that occurs in no more than two sites, or
// in no more than an eighth of them. Allocators, and the loops of threads that work for everybody,
// occur in most. Where all are common, by the rarest, the innermost of equally rare ones.
class SiteNames {
 public:
  explicit SiteNames(const std::vector<callsite::Site>& sites);

  // One line. "unknown site" for 0, "site 0x12" for one that the recording does not describe.
  std::string Of(uint64_t site) const;

 private:
  absl::flat_hash_map<uint64_t, std::string> names_;
};

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_NAMES_H_
