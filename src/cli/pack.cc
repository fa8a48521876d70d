// `ebbtide pack`: offsets for the items of a table, as low as they can be made.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/options.h"
#include "src/cli/progress.h"
#include "src/plan/pack_csv.h"
#include "src/plan/pack_tight.h"

namespace ebt::cli {
namespace {

constexpr size_t kMostFileBytes = size_t{512} << 20;
constexpr double kDefaultSeconds = 50;
constexpr double kMostSeconds = 1e6;

struct PackCommandOptions {
  std::string file;
  std::string capacity;
  std::string output;
  double seconds = kDefaultSeconds;
  bool json = false;
};

struct Packed {
  plan::PackTable table;
  plan::Packing packing;
  uint64_t capacity = 0;  // 0: none was given
  double seconds = 0;

  bool fits() const { return capacity == 0 || packing.peak <= capacity; }
};

using TableFile = std::unique_ptr<FILE, int (*)(FILE*)>;

absl::Status TableError(const std::string& path, const char* what) {
  return absl::UnavailableError(fmt::format("{}: cannot be {}: {}", path, what, strerror(errno)));
}

int Refuse(const absl::Status& status) {
  Log(LogLevel::kError, "{}", std::string(status.message()));
  return kOwnFailure;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  const TableFile file(fopen(path.c_str(), "rbe"), &fclose);
  if (file == nullptr) return TableError(path, "opened");
  std::string text;
  char piece[1 << 16];
  while (const size_t got = fread(piece, 1, sizeof(piece), file.get())) {
    text.append(piece, got);
    if (text.size() > kMostFileBytes) {
      return absl::InvalidArgumentError(fmt::format("{}: more than {}: this is no table of items",
                                                    path, FormatSize(kMostFileBytes)));
    }
  }
  if (ferror(file.get())) return TableError(path, "read");
  return text;
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  TableFile file(fopen(path.c_str(), "wbe"), &fclose);
  if (file == nullptr) return TableError(path, "created");
  const bool written = fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  // The last bytes may fail to reach the disk only now.
  if (fclose(file.release()) != 0 || !written) return TableError(path, "written");
  return absl::OkStatus();
}

Packed PackWithin(plan::PackTable table, uint64_t capacity, double seconds) {
  const Progress progress("packing");
  const auto began = std::chrono::steady_clock::now();
  const auto passed = [began] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  plan::TightOptions options;
  options.capacity = capacity;
  options.nodes = std::numeric_limits<uint64_t>::max();
  options.stop = [&] { return passed() >= seconds; };
  Packed packed{.table = std::move(table), .capacity = capacity};
  packed.packing = plan::PackTight(packed.table.items, options);
  packed.seconds = passed();
  return packed;
}

void PrintPacked(const Packed& packed, bool json) {
  const plan::Packing& packing = packed.packing;
  if (json) {
    nlohmann::ordered_json out = {{"items", packed.table.items.size()},
                                  {"peak", packing.peak},
                                  {"lower_bound", packing.bound},
                                  {"fits", packed.fits()},
                                  {"seconds", packed.seconds}};
    if (packed.capacity > 0) out["capacity"] = packed.capacity;
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("items        {}\npeak         {}\nlower bound  {}\nseconds      {:.2f}\n",
               packed.table.items.size(), packing.peak, packing.bound, packed.seconds);
  }
  std::fflush(stdout);
}

// Why it does not fit.
std::string Missing(const PackCommandOptions& options, const Packed& packed) {
  const plan::Packing& packing = packed.packing;
  if (packed.capacity < packing.bound) {
    return fmt::format("{}: cannot fit into {}: {} are live at once", options.file, packed.capacity,
                       packing.bound);
  }
  return fmt::format("{}: no packing within {} was found in {:.1f} s; the best one takes {}",
                     options.file, packed.capacity, packed.seconds, packing.peak);
}

int PackFile(const PackCommandOptions& options) {
  std::error_code error;
  if (std::filesystem::equivalent(options.output, options.file, error)) {
    return Refuse(absl::InvalidArgumentError(
        fmt::format("{} is the table: name another file for the offsets", options.output)));
  }
  if (!options.output.empty()) {
    if (absl::Status status = CheckOutputFile(options.output); !status.ok()) return Refuse(status);
  }
  const uint64_t capacity = options.capacity.empty() ? 0 : *ParseSize(options.capacity);
  const absl::StatusOr<std::string> text = ReadText(options.file);
  if (!text.ok()) return Refuse(text.status());
  absl::StatusOr<plan::PackTable> table = plan::PackTableFromCsv(*text, options.file);
  if (!table.ok()) return Refuse(table.status());
  const Packed packed = PackWithin(*std::move(table), capacity, options.seconds);
  PrintPacked(packed, options.json);
  if (!packed.fits()) {
    Log(LogLevel::kError, "{}", Missing(options, packed));
    return kProblemFound;
  }
  if (options.output.empty()) return 0;
  const std::string out = plan::PackTableToCsv(packed.table, packed.packing.offsets);
  if (absl::Status status = WriteText(options.output, out); !status.ok()) return Refuse(status);
  Log(LogLevel::kWarning, "wrote {}", options.output);
  return 0;
}

}  // namespace

void AddPack(Invocation& invocation) {
  auto options = std::make_shared<PackCommandOptions>();
  CLI::App* pack = invocation.app.add_subcommand(
      "pack", "Give the items of a table offsets, so that they need as little room as can be");
  SetSynopsis(pack, "FILE.csv [--capacity N] [--seconds S] [-o OUT.csv] [--json]");
  pack->add_option("FILE", options->file,
                   "Table with the columns id, lower, upper (an item lives from lower until "
                   "before upper) and size; ids need not be unique, no field may be quoted")
      ->required();
  AddSizeOption(pack, "--capacity", &options->capacity,
                "Stop as soon as everything fits into this (default: as low as possible)")
      ->check([](const std::string& text) {
        const absl::StatusOr<uint64_t> capacity = ParseSize(text);
        return capacity.ok() && *capacity == 0 ? "nothing fits into 0; leave it out for as low as "
                                                 "possible"
                                               : "";
      });
  pack->add_option("--seconds", options->seconds, "Stop searching after so long")
      ->check(NumberWithin(0, kMostSeconds))
      ->capture_default_str();
  pack->add_option("-o,--output", options->output, "Table to write: the rows with their offsets")
      ->type_name("FILE");
  pack->add_flag("--json", options->json, "Print the outcome as one JSON object");
  pack->footer(
      "Exit code: 0 when everything fits; 1 when it does not, or no packing that does was found;\n"
      "125 when the table cannot be read or written.");
  pack->callback([&invocation, options] {
    if (invocation.has_command) throw CLI::ExtrasError({"--"});
    invocation.action = [options] { return PackFile(*options); };
  });
}

}  // namespace ebt::cli
