# Plugins for sheaf-opt, sheaf-compile and mlir-opt; also part of the installed package.
#
#   sheaf_add_plugin(NAME SOURCES... [DEPENDS TARGETS...])
#   sheaf_add_plugin_tests(TARGET PLUGIN FOLDER)   a lit suite with a lit.cfg.py

# A plugin has its own copy of the nn dialect for programs that have none; in Sheaf's,
# the loader takes the program's.
function(sheaf_add_plugin NAME)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  add_library(${NAME} MODULE ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${NAME} PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR})
  target_include_directories(${NAME} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_compile_definitions(${NAME} PRIVATE ${definitions} NDEBUG)
  target_compile_options(${NAME} PRIVATE -fno-rtti -fno-exceptions -Wall -Wextra
                         -Wno-unused-parameter)
  target_link_libraries(${NAME} PRIVATE SheafNN MLIR LLVM)
  set_target_properties(${NAME} PROPERTIES PREFIX "" CXX_EXTENSIONS OFF)
  add_dependencies(${NAME} SheafNN ${ARG_DEPENDS})
endfunction()

function(sheaf_add_plugin_tests TARGET PLUGIN FOLDER)
  set(lit ${LLVM_TOOLS_BINARY_DIR}/lit)
  find_program(SHEAF_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/test)
  file(GENERATE OUTPUT ${out}/lit.site.cfg.py CONTENT
"config.plugin = '$<TARGET_FILE:${PLUGIN}>'
config.plugin_exec_root = '${out}'
config.sheaf_tools_dir = '${SHEAF_TOOLS_DIR}'
config.llvm_tools_dir = '${LLVM_TOOLS_BINARY_DIR}'
config.python = '${SHEAF_PYTHON}'
lit_config.load_config(config, '${FOLDER}/lit.cfg.py')
")
  add_custom_target(${TARGET} COMMAND ${lit} -sv ${out} DEPENDS ${PLUGIN} USES_TERMINAL)
endfunction()
