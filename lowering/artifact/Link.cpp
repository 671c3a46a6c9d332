//===- Link.cpp - Object code into a shared object ------------------------===//

#include "lld/Common/Driver.h"
#include "lowering/artifact/Artifact.h"
#include "support/WriteFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace sheaf;

LogicalResult sheaf::linkArtifact(Location loc, ArrayRef<std::string> objects,
                                  StringRef path) {
  std::vector<std::string> arguments{
      "ld.lld",           "-shared",         "-z", "now",        "-z", "relro",
      "--hash-style=gnu", "--build-id=none", "-z", "noexecstack"};
  llvm::SmallString<128> linked;
  int descriptor;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("sheaf", "so", descriptor, linked))
    return emitError(loc) << "cannot write a temporary file: "
                          << error.message();
  llvm::sys::fs::closeFile(descriptor);
  llvm::FileRemover removeLinked(linked);
  std::vector<std::unique_ptr<llvm::FileRemover>> removers;
  for (const std::string &object : objects) {
    llvm::SmallString<128> file;
    std::error_code error =
        llvm::sys::fs::createTemporaryFile("sheaf", "o", descriptor, file);
    if (error)
      return emitError(loc)
             << "cannot write a temporary file: " << error.message();
    removers.push_back(std::make_unique<llvm::FileRemover>(file));
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << object;
    stream.close();
    if (stream.has_error()) {
      error = stream.error();
      stream.clear_error();
      return emitError(loc)
             << "cannot write '" << file << "': " << error.message();
    }
    arguments.push_back(std::string(file));
  }
  arguments.push_back("-o");
  arguments.push_back(std::string(linked));
  std::vector<const char *> raw;
  for (const std::string &argument : arguments)
    raw.push_back(argument.c_str());
  std::string output;
  llvm::raw_string_ostream messages(output);
  lld::Result result =
      lld::lldMain(raw, messages, messages, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return emitError(loc) << "link failed: " << messages.str();
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> bytes =
      llvm::MemoryBuffer::getFile(linked);
  if (!bytes)
    return emitError(loc) << "cannot read back '" << linked
                          << "': " << bytes.getError().message();
  if (llvm::Error error =
          writeFile(path, (*bytes)->getBuffer(), /*executable=*/true))
    return emitError(loc) << llvm::toString(std::move(error));
  return success();
}
