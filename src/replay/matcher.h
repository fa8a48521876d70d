// Which slot of the plan a running allocation is (plan/matcher.h).
#ifndef EBBTIDE_SRC_REPLAY_MATCHER_H_
#define EBBTIDE_SRC_REPLAY_MATCHER_H_

#include "src/plan/matcher.h"

namespace ebt::replay {

using plan::Matcher;

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_MATCHER_H_
