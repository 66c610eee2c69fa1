# lit: how the .mlir and .test files below this folder are run. Run them through
# ctest, or by hand: lit -sv BUILD/test/dialects/Mixle/ops.mlir

import os

import lit.formats

config.name = "mixle"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
config.test_exec_root = config.mixle_test_directory

config.environment["PATH"] = os.pathsep.join(
    [directory for directory in config.mixle_tool_directories if directory]
    + [config.llvm_tools_directory, os.environ.get("PATH", "")]
)
config.environment["FILECHECK_OPTS"] = "--enable-var-scope"
config.substitutions.append(("%source", config.mixle_source_directory))
