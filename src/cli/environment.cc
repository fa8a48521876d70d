#include <unistd.h>

#include <filesystem>

#include "src/base/config.h"
#include "src/cli/child.h"

namespace ebt::cli {
namespace {

namespace fs = std::filesystem;

// Where `meson install` puts the library, seen from the command's folder.
constexpr const char* kInstalledFolder = EBBTIDE_LIBDIR_FROM_BINDIR;

bool UserChoseTorchAllocator(const Environment& environment) {
  // The second is the newer name of the first (PyTorch 2.9 on).
  return environment.count("PYTORCH_CUDA_ALLOC_CONF") > 0 ||
         environment.count("PYTORCH_ALLOC_CONF") > 0;
}

bool UserChoseJaxAllocator(const Environment& environment) {
  return environment.count("XLA_PYTHON_CLIENT_ALLOCATOR") > 0 ||
         environment.count("TF_GPU_ALLOCATOR") > 0;
}

}  // namespace

Environment InheritedEnvironment(std::vector<std::string>* complaints) {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const Config config = ParseConfig({text});
    if (config.complaints.empty()) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    complaints->insert(complaints->end(), config.complaints.begin(), config.complaints.end());
  }
  return environment;
}

absl::StatusOr<std::string> FindLibrary() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) {
    return absl::NotFoundError(
        fmt::format("/proc/self/exe: {}; is /proc mounted?", error.message()));
  }
  for (const fs::path& place : {folder, folder / "../lib", folder / kInstalledFolder}) {
    const fs::path library = place / "libebbtide.so";
    if (fs::exists(library, error)) return fs::canonical(library).string();
  }
  return absl::NotFoundError(fmt::format(
      "libebbtide.so is neither beside {0} nor in {0}/../lib nor in {0}/{1}; install Ebbtide anew",
      folder.string(), kInstalledFolder));
}

absl::Status Preload(const std::string& library, Environment* environment) {
  // The loader splits LD_PRELOAD at both and knows no quoting.
  if (library.find_first_of(" :") != std::string::npos) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: a path with a blank or colon cannot be preloaded; move Ebbtide elsewhere", library));
  }
  std::string& preload = (*environment)["LD_PRELOAD"];
  preload = preload.empty() ? library : library + ":" + preload;
  return absl::OkStatus();
}

void ChooseFrameworkAllocators(TorchBackend backend, Environment* environment) {
  if (backend != TorchBackend::kAsync) return;
  if (!UserChoseTorchAllocator(*environment)) {
    environment->emplace("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync");
  }
  if (!UserChoseJaxAllocator(*environment)) {
    environment->emplace("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async");
    // Else JAX takes three quarters of the device before the first array.
    environment->emplace("XLA_PYTHON_CLIENT_PREALLOCATE", "false");
  }
}

}  // namespace ebt::cli
