//===- PipeDialect.td - Schedules of pipelines -------------*- tablegen -*-===//

#ifndef SHEAF_PIPE_DIALECT_TD
#define SHEAF_PIPE_DIALECT_TD

include "mlir/IR/OpBase.td"

def Pipe_Dialect : Dialect {
  let name = "pipe";
  let cppNamespace = "::sheaf::pipe";
  let summary = "pipelines of stages, and who runs what when";
  let description = [{
    `pipe.pipeline` says what is to be done: stages with their costs, and the typed
    values that parts of stages hand to each other. `pipe.schedule` says who does it
    when: for each rank one ordered list of actions. At first actions name stages and
    microbatches alone; once communication is placed, they also take and give the
    values, sends and receives among them.

    What a schedule must hold is checked by `pipe-verify`, which looks at all ranks
    together; ops check themselves alone.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerPipeTypesAndAttributes();
  }];
}

#endif // SHEAF_PIPE_DIALECT_TD
