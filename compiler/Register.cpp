//===- Register.cpp - Dialects and passes of Sheaf ------------------------===//

#include "compiler/Compile.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "dialects/Pipe/Pipe.h"
#include "lowering/CheckRules/CheckRules.h"
#include "lowering/DistToNN/DistToNN.h"
#include "lowering/ExecToLLVM/ExecToLLVM.h"
#include "lowering/NNToExec/NNToExec.h"
#include "lowering/NNToLinalg/NNToLinalg.h"
#include "lowering/cpu/kernels/Kernels.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/Passes.h"
#include "passes/autodiff/Passes.h"
#include "passes/fusion/Passes.h"
#include "passes/memory/Passes.h"
#include "passes/nn/Passes.h"
#include "passes/overlap/Passes.h"
#include "passes/pipeline/Passes.h"
#include "passes/precision/Passes.h"
#include "passes/recompute/Passes.h"
#include "passes/sharding/Passes.h"
#include "passes/stages/Passes.h"
#include "passes/step/Passes.h"

void sheaf::registerSheafDialects(mlir::DialectRegistry &registry) {
  registry.insert<nn::NNDialect, dist::DistDialect, exec::ExecDialect,
                  pipe::PipeDialect, mlir::func::FuncDialect,
                  mlir::arith::ArithDialect, mlir::scf::SCFDialect,
                  mlir::memref::MemRefDialect, mlir::LLVM::LLVMDialect>();
  // What kernels are made of, where a lower floor is read.
  registry.insert<mlir::cf::ControlFlowDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::tensor::TensorDialect,
                  mlir::vector::VectorDialect>();
  mlir::func::registerInlinerExtension(registry);
  registerCodegenDialects(registry);
}

void sheaf::registerSheafPasses() {
  mlir::registerTransformsPasses();
  registerNNToExecPasses();
  registerAutodiffPasses();
  registerNNToLinalgPasses();
  registerFusionPasses();
  registerMemoryPasses();
  registerOverlapPasses();
  registerNNPasses();
  registerPipelinePasses();
  registerPrecisionPasses();
  registerRecomputePasses();
  registerShardingPasses();
  registerStagesPasses();
  registerStepPasses();
  registerDistToNNPasses();
  registerCheckRulesPasses();
  registerExecToLLVMPasses();
  registerCPUKernelsPasses();
}
