# The lit configuration of Sheaf: where tests are, and what they may call.

import os
import shutil

import lit.formats

from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "Sheaf"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.sheaf_binary_dir, "test")
# e2e, oracle, gpu and unit tests have runners of their own.
config.excludes = ["Inputs", "CMakeLists.txt", "lit.cfg.py", "lit.site.cfg.py", "e2e", "oracle",
                   "gpu", "plugins", "unit"]

llvm_config.with_system_environment(["HOME", "TMP", "TEMP", "SHEAF_FULL", "CCACHE_DIR"])
llvm_config.use_default_substitutions()
# Programs that a test starts by itself start ours, too.
for folder in (config.llvm_tools_dir, config.sheaf_tools_dir):
    llvm_config.with_environment("PATH", folder, append_path=True)

# With --param=roundtrip=1 every run of sheaf-opt also prints, parses and compares.
options = ["--verify-roundtrip"] if lit_config.params.get("roundtrip") else []
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%mlir_include", config.mlir_include_dir))
config.substitutions.append(("%sheaf_source", config.sheaf_source_dir))
config.substitutions.append(("%sheaf_bin", config.sheaf_tools_dir))
config.substitutions.append(("%sheaf_lib", os.path.join(config.sheaf_binary_dir, "lib")))
# For builds inside tests: the same files come again.
config.substitutions.append(("%launcher", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
                             if shutil.which("ccache") else ""))
llvm_config.add_tool_substitutions(
    [ToolSubst("sheaf-opt", extra_args=options)]
    + [tool for tool in ("sheaf-compile", "sheaf-model", "sheaf-run", "sheaf-plan", "sheaf-lsp-server",
                               "sheaf-reduce", "sheaf-schedule")
       if os.path.exists(os.path.join(config.sheaf_tools_dir, tool))],
    [config.sheaf_tools_dir, config.llvm_tools_dir])

if os.path.exists(os.path.join(config.llvm_tools_dir, "clang-format")):
    config.available_features.add("clang-format")
if shutil.which("git"):
    config.available_features.add("git")
if shutil.which("mpirun"):
    config.available_features.add("mpi")
