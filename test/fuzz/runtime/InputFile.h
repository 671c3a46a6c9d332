//===- InputFile.h - Bytes as a file ---------------------------*- C++ -*-===//
//
// The runtime reads files by their path: this one is in memory.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TEST_FUZZ_INPUTFILE_H
#define SHEAF_TEST_FUZZ_INPUTFILE_H

#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

class InputFile {
public:
  InputFile(const uint8_t *data, size_t size) : file(memfd_create("input", 0)) {
    if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size))
      abort();
  }
  ~InputFile() { close(file); }
  InputFile(const InputFile &) = delete;
  InputFile &operator=(const InputFile &) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(file); }

private:
  int file;
};

#endif // SHEAF_TEST_FUZZ_INPUTFILE_H
