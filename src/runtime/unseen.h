// Libraries whose calls of the driver pass the front by.
#ifndef EBBTIDE_SRC_RUNTIME_UNSEEN_H_
#define EBBTIDE_SRC_RUNTIME_UNSEEN_H_

#include <string>
#include <vector>

#include "hooks/core_api.h"

namespace ebt::runtime {

// A loaded library, and the functions that the loader bound for it past the front. Where "dlsym"
// is among them, it can find every other one unseen.
struct UnseenLibrary {
  std::string name;  // of the file, without its folder
  std::vector<std::string> symbols;
};

// Looks at every library that is loaded now. A function that a library has not yet needed counts
// only once it is bound. Libraries of the driver's, libc, the loader and ours are left out.
std::vector<UnseenLibrary> FindUnseen(const ebt_front& front);

// Path of the driver's library, "" where that is not known.
std::string DriverPath(const ebt_front& front);

}  // namespace ebt::runtime

#endif  // EBBTIDE_SRC_RUNTIME_UNSEEN_H_
