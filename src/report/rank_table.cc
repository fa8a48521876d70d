#include "src/report/rank_table.h"

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/report/text.h"

namespace ebt::report {
namespace {

using plan::Amount;
using plan::Rank;
using plan::RankComparison;
using plan::RankFigures;
using plan::RankSurvey;
using plan::Unmatched;

constexpr size_t kRowWidth = 70;
constexpr size_t kSourceWidth = 56;
constexpr size_t kProgramWidth = 30;

std::string NameOf(const Rank& rank) {
  const std::string number = rank.number ? fmt::format("rank {}", *rank.number) : "rank unknown";
  return fmt::format("{} ({}{})", Shortened(rank.source, kSourceWidth), number,
                     rank.truncated ? ", ends early" : "");
}

std::string Blocks(const Amount& amount) {
  return fmt::format("{} in {} block{}", FormatSize(amount.bytes), amount.blocks,
                     amount.blocks == 1 ? "" : "s");
}

void PrintDifference(const std::string& what, const std::string& here, const std::string& planned,
                     Text& out) {
  Print(out, "  {:<22}{}; the planned one: {}\n", what, here, planned);
}

void PrintNumbers(const std::string& what, uint64_t here, uint64_t planned, Text& out) {
  if (here == planned) return;
  PrintDifference(what, std::to_string(here), std::to_string(planned), out);
}

// Sizes that read the same though they differ are told in bytes.
void PrintSizes(const std::string& what, uint64_t here, uint64_t planned, Text& out) {
  if (here == planned) return;
  const bool same = FormatSize(here) == FormatSize(planned);
  const auto text = [same](uint64_t bytes) {
    return bytes == 0 ? "unknown" : same ? fmt::format("{} B", bytes) : FormatSize(bytes);
  };
  PrintDifference(what, text(here), text(planned), out);
}

void PrintUnmatched(const std::string& what, const Unmatched& unmatched, size_t top, Text& out) {
  if (unmatched.amount.blocks == 0) return;
  Print(out, "  {:<22}{}\n", what, Blocks(unmatched.amount));
  for (size_t i = 0; i < unmatched.sites.size() && i < top; ++i) {
    const Unmatched::Site& site = unmatched.sites[i];
    Print(out, "{:>16}{:>6} x  {}\n", FormatSize(site.amount.bytes), site.amount.blocks,
          Shortened(site.label, kRowWidth));
  }
  if (unmatched.sites.size() > top) {
    Print(out, "{:24}... and {} sites more\n", "", unmatched.sites.size() - top);
  }
}

void PrintAllocations(const std::string& what, const Amount& here, const Amount& planned,
                      const Unmatched& unmatched, const Unmatched& missing, size_t top, Text& out) {
  if (unmatched.amount.blocks + missing.amount.blocks == 0) return;
  PrintDifference(what, Blocks(here), Blocks(planned), out);
  PrintUnmatched("  not in the plan", unmatched, top, out);
  PrintUnmatched("  in the plan alone", missing, top, out);
}

void PrintRank(const RankComparison& comparison, const RankFigures& planned, size_t top,
               Text& out) {
  Print(out, "{}:{}\n", NameOf(comparison.rank), comparison.alike ? " alike" : "");
  if (comparison.alike) return;
  const RankFigures& here = comparison.rank.figures;
  if (here.program != planned.program) {
    PrintDifference("program", Shortened(here.program, kProgramWidth),
                    Shortened(planned.program, kProgramWidth), out);
  }
  PrintNumbers("whole steps", here.steps, planned.steps, out);
  PrintNumbers("launches a step", here.launches, planned.launches, out);
  PrintSizes("native peak", here.native_peak_bytes, planned.native_peak_bytes, out);
  PrintSizes("device memory", here.total_bytes, planned.total_bytes, out);
  PrintAllocations("a step", here.step, planned.step, comparison.step, comparison.step_missing, top,
                   out);
  PrintAllocations("kept over steps", here.persistent, planned.persistent, comparison.persistent,
                   comparison.persistent_missing, top, out);
}

}  // namespace

std::string RankTable(const RankSurvey& survey, size_t top_sites) {
  Text out;
  Print(out, "\nThe plan is that of {}\n", NameOf(survey.planned));
  for (const RankComparison& other : survey.others) {
    PrintRank(other, survey.planned.figures, top_sites, out);
  }
  if (!survey.unread.empty()) Print(out, "Not compared: {}\n", survey.unread.size());
  return fmt::to_string(out);
}

}  // namespace ebt::report
