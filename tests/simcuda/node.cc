// Graphs that a program builds node by node. Nodes run in the order in which they were added, which
// satisfies whatever edges a program draws between a node and earlier ones.
#include "api.h"
#include "graph.h"
#include "state.h"

namespace sim {
namespace {

CUresult WorkOf(const CUDA_KERNEL_NODE_PARAMS_v1* p, Work* work) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 node = {};
  node.func = p->func;
  node.gridDimX = p->gridDimX;
  node.gridDimY = p->gridDimY;
  node.gridDimZ = p->gridDimZ;
  node.blockDimX = p->blockDimX;
  node.blockDimY = p->blockDimY;
  node.blockDimZ = p->blockDimZ;
  node.kernelParams = p->kernelParams;
  node.extra = p->extra;
  return KernelNodeWork(node, work);
}
CUresult WorkOf(const CUDA_KERNEL_NODE_PARAMS_v2* p, Work* work) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : KernelNodeWork(*p, work);
}
CUresult WorkOf(const CUDA_MEMCPY3D* p, Work* work) { return CopyNodeWork(p, work); }
CUresult WorkOf(const CUDA_MEMSET_NODE_PARAMS_v1* p, Work* work) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : SetNodeWork(*p, work);
}
CUresult WorkOf(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* p, Work* work) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : ValueNodeWork(p->paramArray, p->count, work);
}
CUresult WorkOf(const CUgraphNodeParams* p, Work* work) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const CUDA_KERNEL_NODE_PARAMS_v3& k = p->kernel;
      return KernelNodeWork({k.func, k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY,
                             k.blockDimZ, k.sharedMemBytes, k.kernelParams, k.extra, k.kern, k.ctx},
                            work);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return CopyNodeWork(&p->memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return SetNodeWork({p->memset.dst, p->memset.pitch, p->memset.value, p->memset.elementSize,
                          p->memset.width, p->memset.height},
                         work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return ValueNodeWork(p->memOp.paramArray, p->memOp.count, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

template <typename Node>
CUresult Add(CUgraphNode* out, CUgraph handle, const Node* node) {
  std::shared_ptr<Graph> graph = FindGraph(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  const CUresult result = WorkOf(node, &work);
  if (result != CUDA_SUCCESS) return result;
  graph->nodes.push_back(std::move(work));
  *out = reinterpret_cast<CUgraphNode>(&graph->nodes.back());
  return CUDA_SUCCESS;
}

template <typename Node>
CUresult Change(Work* place, const Node* node) {
  Work work;
  if (place == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = WorkOf(node, &work);
  if (result == CUDA_SUCCESS) *place = std::move(work);
  return result;
}

}  // namespace

#define SIM_NODE(Kind, Node)                                                               \
  CUresult GraphAdd##Kind(CUgraphNode* out, CUgraph graph, const CUgraphNode*, size_t,     \
                          const Node* node) {                                              \
    return Add(out, graph, node);                                                          \
  }                                                                                        \
  CUresult Graph##Kind##Set(CUgraphNode changed, const Node* node) {                       \
    return Change(FindNode(changed), node);                                                \
  }                                                                                        \
  CUresult GraphExec##Kind##Set(CUgraphExec exec, CUgraphNode changed, const Node* node) { \
    return Change(FindNode(exec, changed), node);                                          \
  }
SIM_NODE(KernelNode, CUDA_KERNEL_NODE_PARAMS_v1)
SIM_NODE(KernelNode2, CUDA_KERNEL_NODE_PARAMS_v2)
SIM_NODE(BatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS_v1)
#undef SIM_NODE

#define SIM_NODE(Kind, Node)                                                             \
  CUresult GraphAdd##Kind(CUgraphNode* out, CUgraph graph, const CUgraphNode*, size_t,   \
                          const Node* node, CUcontext) {                                 \
    return Add(out, graph, node);                                                        \
  }                                                                                      \
  CUresult Graph##Kind##Set(CUgraphNode changed, const Node* node) {                     \
    return Change(FindNode(changed), node);                                              \
  }                                                                                      \
  CUresult GraphExec##Kind##Set(CUgraphExec exec, CUgraphNode changed, const Node* node, \
                                CUcontext) {                                             \
    return Change(FindNode(exec, changed), node);                                        \
  }
SIM_NODE(MemcpyNode, CUDA_MEMCPY3D)
SIM_NODE(MemsetNode, CUDA_MEMSET_NODE_PARAMS_v1)
#undef SIM_NODE

CUresult GraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode*, size_t,
                      CUgraphNodeParams* node) {
  return Add(out, graph, node);
}
CUresult GraphAddNode2(CUgraphNode* out, CUgraph graph, const CUgraphNode*, const CUgraphEdgeData*,
                       size_t, CUgraphNodeParams* node) {
  return Add(out, graph, node);
}
CUresult GraphNodeSet(CUgraphNode changed, CUgraphNodeParams* node) {
  return Change(FindNode(changed), node);
}
CUresult GraphExecNodeSet(CUgraphExec exec, CUgraphNode changed, CUgraphNodeParams* node) {
  return Change(FindNode(exec, changed), node);
}

// The child's nodes as they are now, behind those that are there; the first is the handle.
CUresult GraphAddChild(CUgraphNode* out, CUgraph handle, const CUgraphNode*, size_t,
                       CUgraph child_handle) {
  std::shared_ptr<Graph> graph = FindGraph(handle), child = FindGraph(child_handle);
  if (out == nullptr || graph == nullptr || child == nullptr || child->nodes.empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t first = graph->nodes.size();
  for (const Work& work : child->nodes) graph->nodes.push_back(work);
  *out = reinterpret_cast<CUgraphNode>(&graph->nodes[first]);
  return CUDA_SUCCESS;
}

}  // namespace sim
