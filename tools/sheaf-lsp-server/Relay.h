//===- Relay.h - Between an editor and MLIR's language server --*- C++ -*-===//
//
// MLIR's server knows what an op is made of and not what it is for. The relay
// stands between it and the editor, passes every message on, and adds to the
// answers on hover and completion: the op's or attribute's documentation and the
// statement that defines a value, with its shardings.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TOOLS_LSP_RELAY_H
#define SHEAF_TOOLS_LSP_RELAY_H

#include "llvm/Support/JSON.h"
#include <map>
#include <mutex>
#include <string>

namespace sheaf::lsp {

/// One message of the protocol: what Content-Length frames, without the frame.
/// False at the end of the stream.
bool readMessage(FILE *stream, std::string &message);
void writeMessage(FILE *stream, llvm::StringRef message);

/// What the relay knows of a session. Calls may come from two threads.
class Relay {
public:
  /// Looks at what the editor sends.
  void fromEditor(llvm::StringRef message);
  /// The server's message as the editor shall see it.
  std::string fromServer(llvm::StringRef message);

private:
  /// An open request on a place in a document.
  struct Request {
    std::string method, line, token, definition;
  };
  std::mutex mutex;
  std::map<std::string, std::string> documents;
  std::map<std::string, Request> requests;
};

} // namespace sheaf::lsp

#endif // SHEAF_TOOLS_LSP_RELAY_H
