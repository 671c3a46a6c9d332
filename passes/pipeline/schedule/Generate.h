//===- Generate.h - The known recipes for schedules -------------*- C++ -*-===//
//
// Makes the compute order of a schedule: each recipe by its definition, for any
// number of ranks and microbatches that it is defined for.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_PASSES_PIPELINE_SCHEDULE_GENERATE_H
#define SHEAF_PASSES_PIPELINE_SCHEDULE_GENERATE_H

#include "passes/pipeline/schedule/Schedule.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace sheaf::schedule {

/// Huang et al., GPipe, arXiv:1811.06965: all forwards, then all backwards.
Schedule makeGPipe(int32_t ranks, int32_t microbatches);

/// Narayanan et al., PipeDream-Flush, arXiv:2006.09503: min(m, p-1-r) forwards,
/// then pairs of one forward and one backward, then the other backwards.
Schedule make1F1B(int32_t ranks, int32_t microbatches);

/// Narayanan et al., arXiv:2104.04473, section 2.2: 1F1B with `chunks` stages a
/// rank, in groups of p microbatches. Where p does not divide m, that of the
/// next multiple without the microbatches that are not there. One chunk is
/// 1F1B.
Schedule makeInterleaved(int32_t ranks, int32_t microbatches, int32_t chunks);

/// Lamy-Poirier, Breadth-first pipeline parallelism, arXiv:2211.05953: each
/// stage of a rank does all its forwards before the next one, and all its
/// backwards.
Schedule makeBreadthFirst(int32_t ranks, int32_t microbatches, int32_t chunks);

/// Qi et al., Zero bubble pipeline parallelism, arXiv:2401.10241: ZB-H1 keeps
/// the activations of 1F1B, ZB-H2 about twice as many and no bubble by span.
Schedule makeZBH1(int32_t ranks, int32_t microbatches);
Schedule makeZBH2(int32_t ranks, int32_t microbatches);

/// Qi et al., Pipeline parallelism with controllable memory, arXiv:2405.15362:
/// two stages a rank, folded, each part of a rank a third of its time.
Schedule makeZBV(int32_t ranks, int32_t microbatches);

/// DualPipeV, the folded half of DeepSeek's DualPipe (arXiv:2412.19437, section
/// 3.2.1): forwards and backwards in fused pairs. Fewer than 2p microbatches
/// are refused.
llvm::Expected<Schedule> makeDualPipeV(int32_t ranks, int32_t microbatches);

/// "gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zbv", "dualpipev".
llvm::ArrayRef<llvm::StringRef> recipeNames();

/// By name; `chunks` counts for interleaved and bfs alone. The error says what
/// is wrong with the name or the numbers and what would fit.
llvm::Expected<Schedule> makeRecipe(llvm::StringRef name, int32_t ranks,
                                    int32_t microbatches, int32_t chunks);

} // namespace sheaf::schedule

#endif // SHEAF_PASSES_PIPELINE_SCHEDULE_GENERATE_H
