// Graphs: work in the order in which it was queued or in which its nodes were added.
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

// Of nodes, on the current context's device.
CUresult KernelNodeWork(const CUDA_KERNEL_NODE_PARAMS_v2& node, Work* work);
CUresult CopyNodeWork(const CUDA_MEMCPY3D* node, Work* work);
CUresult SetNodeWork(const CUDA_MEMSET_NODE_PARAMS_v1& node, Work* work);
// Writes alone.
CUresult ValueNodeWork(const CUstreamBatchMemOpParams* operations, unsigned count, Work* work);

// The work of a node, whichever graph it is in. Null: there is no such node.
Work* FindNode(CUgraphNode node);
// The node's work in an executable graph that was made of its graph.
Work* FindNode(CUgraphExec exec, CUgraphNode node);

// A stream that waits for an event of a capture becomes part of that capture.
void JoinCapture(Stream* stream, Stream* capturing);

}  // namespace sim

#endif  // EBBTIDE_TESTS_SIMCUDA_GRAPH_H_
