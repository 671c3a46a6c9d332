//===- TestSupport.h - helpers of the runtime's tests -----------*- C++ -*-===//
//
// Temporary directories, expected error messages, and running sheaf-run.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TESTSUPPORT_H
#define SHEAF_TESTSUPPORT_H

#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>

namespace sheaf::test {

class TempDirectory {
public:
  TempDirectory() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "sheaf-test-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      fail("cannot create a temporary directory");
    path = pattern;
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  std::string path;
};

/// Runs `body` and expects an Error whose message has `part` in it.
template <typename Body>
void expectError(Body body, const std::string &part) {
  try {
    body();
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "message: " << error.what() << "\nexpected in it: " << part;
  }
}

struct Outcome {
  int status; ///< exit status, or 128 + signal
  std::string output;
};

/// Runs a shell command; output is stdout and stderr together.
inline Outcome shell(const std::string &command) {
  TempDirectory directory;
  std::string file = directory / "output";
  int status = std::system(("{ " + command + "\n} >" + file + " 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          readFile(file)};
}

inline std::string toy(const std::string &name = "toy") {
  return std::string(SHEAF_TOYS) + "/" + name + ".sheaf";
}

/// Runs sheaf-run with the toy artifact.
inline Outcome runToy(const std::string &options) {
  return shell(std::string(SHEAF_RUN) + " " + toy() + " " + options);
}

/// Some English to train on.
inline std::string trainingText() {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += fmt::format("sample {} of {} goes to rank {}, and then on.\n", i,
                        i * 7 % 31, i % 8);
  return text;
}

} // namespace sheaf::test

/// Checks the status of an Outcome, and that its output has `part` in it.
#define EXPECT_RUN(outcome, expected, part)                                    \
  do {                                                                         \
    ::sheaf::test::Outcome done = outcome;                                     \
    EXPECT_EQ(done.status, expected) << done.output;                           \
    EXPECT_NE(done.output.find(part), std::string::npos) << done.output;       \
  } while (0)

#endif // SHEAF_TESTSUPPORT_H
