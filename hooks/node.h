// The nodes of graphs that a program builds by hand: what they name is told when a node is made or
// changed, since its work comes with any launch of any graph that was made of it.
#ifndef EBBTIDE_HOOKS_NODE_H_
#define EBBTIDE_HOOKS_NODE_H_

#include "hooks/copy.h"
#include "hooks/value.h"

namespace ebt::front {

inline void* FunctionOf(const CUDA_KERNEL_NODE_PARAMS_v1& node) { return node.func; }
template <typename Node>
void* FunctionOf(const Node& node) {
  return node.func ? static_cast<void*>(node.func) : static_cast<void*>(node.kern);
}

// Of any version: the fields bear the same names.
template <typename Node>
void Named(const Entry& entry, const Node* node) {
  if (!entry.core || !node) return;
  const ebt_launch launch = {FunctionOf(*node),
                             nullptr,
                             {node->gridDimX, node->gridDimY, node->gridDimZ},
                             {node->blockDimX, node->blockDimY, node->blockDimZ},
                             node->sharedMemBytes,
                             node->kernelParams,
                             node->extra};
  entry.core->lifecycle(EBT_KERNEL_NODE, nullptr, &launch);
}

inline void CopyNamed(const Entry& entry, const ebt_copy& copy) {
  if (entry.core) entry.core->lifecycle(EBT_COPY_NODE, nullptr, &copy);
}

inline void Named(const Entry& entry, const CUDA_MEMCPY3D* node) {
  if (node) CopyNamed(entry, RegionOf(node, nullptr, 0));
}

template <typename Node>
void SetNamed(const Entry& entry, const Node* node) {
  if (node)
    CopyNamed(entry, SetRows(node->dst, node->pitch, node->width * node->elementSize, node->height,
                             nullptr, 0));
}
inline void Named(const Entry& entry, const CUDA_MEMSET_NODE_PARAMS_v1* node) {
  SetNamed(entry, node);
}
inline void Named(const Entry& entry, const CUDA_MEMSET_NODE_PARAMS_v2* node) {
  SetNamed(entry, node);
}

inline void Named(const Entry& entry, const CUDA_BATCH_MEM_OP_NODE_PARAMS* node) {
  if (node) AddressesTaken(entry, node->paramArray, node->count);
}

// Memory that an allocation node gives is the driver's; other kinds of nodes name none, or have
// nodes of their own.
inline void Named(const Entry& entry, const CUgraphNodeParams* node) {
  if (!node) return;
  switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return Named(entry, &node->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return Named(entry, &node->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return Named(entry, &node->memset);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return AddressesTaken(entry, node->memOp.paramArray, node->memOp.count);
    default:
      return;
  }
}

#define EBT_NODE_CHANGE(Kind, Node)                                        \
  template <Slot slot, Mode mode>                                          \
  CUresult Graph##Kind##SetParams(CUgraphNode changed, const Node* node) { \
    EBT_ENTER(Graph##Kind##SetParams);                                     \
    Named(entry, node);                                                    \
    return real(changed, node);                                            \
  }

// The three functions of a kind of node: it is added, changed, and changed in an executable graph.
#define EBT_NODE_BODY(Kind, Node)                                                                  \
  template <Slot slot, Mode mode>                                                                  \
  CUresult GraphAdd##Kind(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count, \
                          const Node* node) {                                                      \
    EBT_ENTER(GraphAdd##Kind);                                                                     \
    Named(entry, node);                                                                            \
    return real(out, graph, after, count, node);                                                   \
  }                                                                                                \
  EBT_NODE_CHANGE(Kind, Node)                                                                      \
  template <Slot slot, Mode mode>                                                                  \
  CUresult GraphExec##Kind##SetParams(CUgraphExec exec, CUgraphNode changed, const Node* node) {   \
    EBT_ENTER(GraphExec##Kind##SetParams);                                                         \
    Named(entry, node);                                                                            \
    return real(exec, changed, node);                                                              \
  }
EBT_NODE_BODY(KernelNodeV1, CUDA_KERNEL_NODE_PARAMS_v1)
EBT_NODE_BODY(KernelNodeV2, CUDA_KERNEL_NODE_PARAMS_v2)
EBT_NODE_BODY(BatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS)
#undef EBT_NODE_BODY

// Likewise, for kinds that say a context.
#define EBT_NODE_BODY(Kind, Node)                                                                  \
  template <Slot slot, Mode mode>                                                                  \
  CUresult GraphAdd##Kind(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count, \
                          const Node* node, CUcontext context) {                                   \
    EBT_ENTER(GraphAdd##Kind);                                                                     \
    Named(entry, node);                                                                            \
    return real(out, graph, after, count, node, context);                                          \
  }                                                                                                \
  EBT_NODE_CHANGE(Kind, Node)                                                                      \
  template <Slot slot, Mode mode>                                                                  \
  CUresult GraphExec##Kind##SetParams(CUgraphExec exec, CUgraphNode changed, const Node* node,     \
                                      CUcontext context) {                                         \
    EBT_ENTER(GraphExec##Kind##SetParams);                                                         \
    Named(entry, node);                                                                            \
    return real(exec, changed, node, context);                                                     \
  }
EBT_NODE_BODY(MemcpyNode, CUDA_MEMCPY3D)
EBT_NODE_BODY(MemsetNode, CUDA_MEMSET_NODE_PARAMS_v1)
#undef EBT_NODE_BODY
#undef EBT_NODE_CHANGE

template <Slot slot, Mode mode>
CUresult GraphAddNodeV1(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                        CUgraphNodeParams* node) {
  EBT_ENTER(GraphAddNodeV1);
  Named(entry, node);
  return real(out, graph, after, count, node);
}

template <Slot slot, Mode mode>
CUresult GraphAddNodeV2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                        const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* node) {
  EBT_ENTER(GraphAddNodeV2);
  Named(entry, node);
  return real(out, graph, after, edges, count, node);
}

template <Slot slot, Mode mode>
CUresult GraphNodeSetParams(CUgraphNode changed, CUgraphNodeParams* node) {
  EBT_ENTER(GraphNodeSetParams);
  Named(entry, node);
  return real(changed, node);
}

template <Slot slot, Mode mode>
CUresult GraphExecNodeSetParams(CUgraphExec exec, CUgraphNode changed, CUgraphNodeParams* node) {
  EBT_ENTER(GraphExecNodeSetParams);
  Named(entry, node);
  return real(exec, changed, node);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_NODE_H_
