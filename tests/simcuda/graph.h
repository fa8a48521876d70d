// Captured graphs: the work of the capture in the order in which it was queued.
#ifndef EBBTIDE_TESTS_SIMCUDA_GRAPH_H_
#define EBBTIDE_TESTS_SIMCUDA_GRAPH_H_

#include <deque>
#include <memory>
#include <vector>

#include "clock.h"

namespace sim {

struct Graph {
  uint64_t id = 0;
  std::deque<Work> nodes;             // a node's handle is its address
  std::vector<uint64_t> allocations;  // regions that allocation nodes own
};

// Null: no such graph.
std::shared_ptr<Graph> FindGraph(CUgraph handle);

// A stream that waits for an event of a capture becomes part of that capture.
void JoinCapture(Stream* stream, Stream* capturing);

}  // namespace sim

#endif  // EBBTIDE_TESTS_SIMCUDA_GRAPH_H_
