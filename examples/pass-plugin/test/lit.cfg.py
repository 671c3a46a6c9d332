# The lit suite of the plugin, with the programs of an installed Sheaf.

import os

import lit.formats

config.name = "Cube"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.plugin_exec_root
config.environment["PATH"] = os.pathsep.join(
    [config.sheaf_tools_dir, config.llvm_tools_dir, os.environ["PATH"]])
config.substitutions += [("%plugin", config.plugin), ("%python", config.python)]
