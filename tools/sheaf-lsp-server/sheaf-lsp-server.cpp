//===- sheaf-lsp-server.cpp - The language server for Sheaf's dialects ----===//

#include "Relay.h"
#include "compiler/Compile.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "support/Version.h"
#include "llvm/Support/LogicalResult.h"
#include <csignal>
#include <thread>
#include <unistd.h>

using namespace sheaf;

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  registerSheafDialects(registry);
  // Each argument is for debugging the server itself, or asks for help: no editor.
  if (argc > 1) {
    if (llvm::StringRef(argv[1]) == "--version") {
      printVersion(llvm::outs());
      return 0;
    }
    return llvm::failed(mlir::MlirLspServerMain(argc, argv, registry));
  }

  // MLIR's server keeps standard input and output, which become pipes here; the
  // editor's are ours.
  signal(SIGPIPE, SIG_IGN);
  int editorIn = dup(0), editorOut = dup(1), toServer[2], fromServer[2];
  if (editorIn < 0 || editorOut < 0 || pipe(toServer) || pipe(fromServer) ||
      dup2(toServer[0], 0) < 0 || dup2(fromServer[1], 1) < 0) {
    perror("sheaf-lsp-server: cannot make pipes");
    return 1;
  }
  close(toServer[0]);
  close(fromServer[1]);
  FILE *in = fdopen(editorIn, "r"), *out = fdopen(editorOut, "w");
  FILE *server = fdopen(toServer[1], "w"), *answers = fdopen(fromServer[0], "r");
  lsp::Relay relay;
  std::thread requests([&] {
    std::string message;
    while (lsp::readMessage(in, message)) {
      relay.fromEditor(message);
      lsp::writeMessage(server, message);
    }
    fclose(server);
  });
  std::thread replies([&] {
    std::string message;
    while (lsp::readMessage(answers, message))
      lsp::writeMessage(out, relay.fromServer(message));
  });
  // After `exit` an editor may keep its end open: nothing waits for it then.
  requests.detach();
  bool failed = llvm::failed(mlir::MlirLspServerMain(argc, argv, registry));
  llvm::outs().flush();
  close(1);
  replies.join();
  fflush(out);
  _exit(failed);
}
