// Reads a profile file (profiles/FORMAT.md). The bytes are untrusted: whatever they are, the
// answer is a consistent Profile or one error that names the file, the byte and the reason.
#ifndef EBBTIDE_SRC_PROFILE_READER_H_
#define EBBTIDE_SRC_PROFILE_READER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/profile/types.h"

namespace ebt::profile {

// The profile in the file at `path`. What holds of the result:
//  - blocks[i].id == i, in the order of their allocation; functions[i].id == i;
//  - events are in the order in which they happened, whichever thread wrote them;
//  - every block named by an event is alive there: alloc_at <= at < free_at (at == free_at for
//    its free). What a cut-off file leaves dangling is dropped;
//  - launches name existing functions.
// A file that stops early is read up to its last whole chunk, with Profile::truncated set.
// Errors: kNotFound and kPermissionDenied (cannot be opened), kInvalidArgument (not a profile),
// kFailedPrecondition (a newer format), kDataLoss (damaged), kResourceExhausted (no memory).
// Thread-safe.
absl::StatusOr<Profile> ReadProfile(const std::string& path);

// The same from memory; `name` stands for the file in messages.
absl::StatusOr<Profile> ParseProfile(std::string_view bytes, const std::string& name);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_READER_H_
