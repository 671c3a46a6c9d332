# One CMake target for each folder of compiler code.
#
#   sheaf_compiler_library(NAME SOURCES... [LINK LIBS...] [DEPENDS TARGETS...])
#   sheaf_compiler_tool(NAME SOURCES... [LINK LIBS...])
#   sheaf_tablegen_pass_header(FOLDER_TARGET GROUP)
#
# Everything compiled against MLIR shares one precompiled header (it halves the
# build) and links the shared MLIR and LLVM libraries only.

separate_arguments(SHEAF_LLVM_DEFINITIONS NATIVE_COMMAND ${LLVM_DEFINITIONS})

add_library(SheafCompilerOptions INTERFACE)
target_include_directories(SheafCompilerOptions INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_include_directories(SheafCompilerOptions SYSTEM INTERFACE
  ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_definitions(SheafCompilerOptions INTERFACE ${SHEAF_LLVM_DEFINITIONS})
target_compile_options(SheafCompilerOptions INTERFACE
  -fno-rtti -fno-exceptions -fPIC -DNDEBUG -Wall -Wextra -Wno-unused-parameter
  $<$<BOOL:${SHEAF_WERROR}>:-Werror>)

file(WRITE ${CMAKE_BINARY_DIR}/pch/empty.cpp "")
add_library(SheafPrecompiled STATIC ${CMAKE_BINARY_DIR}/pch/empty.cpp)
target_link_libraries(SheafPrecompiled PRIVATE SheafCompilerOptions)
target_precompile_headers(SheafPrecompiled PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h)

function(_sheaf_compiler_target NAME)
  target_link_libraries(${NAME} PRIVATE SheafCompilerOptions)
  target_precompile_headers(${NAME} REUSE_FROM SheafPrecompiled)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${NAME} PRIVATE -fpch-preprocess)
  endif()
endfunction()

function(sheaf_compiler_library NAME)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_library(${NAME} STATIC ${ARG_UNPARSED_ARGUMENTS})
  _sheaf_compiler_target(${NAME})
  target_link_libraries(${NAME} PUBLIC ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${NAME} ${ARG_DEPENDS})
  endif()
  # Generated headers of the libraries below must exist first.
  foreach(lib ${ARG_LINK})
    if(TARGET ${lib})
      add_dependencies(${NAME} ${lib})
    endif()
  endforeach()
endfunction()

function(sheaf_compiler_tool NAME)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${NAME} ${ARG_UNPARSED_ARGUMENTS})
  _sheaf_compiler_target(${NAME})
  target_link_libraries(${NAME} PRIVATE ${ARG_LINK} MLIR LLVM)
  # Plugins take Sheaf's symbols from the program that loads them.
  set_target_properties(${NAME} PROPERTIES ENABLE_EXPORTS ON)
endfunction()

# GCC 12 warns of impossible copies inside std::string (its bug 105651).
target_compile_options(SheafCompilerOptions INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-stringop-overflow>)

# Passes.td in the current folder: Passes.h.inc and the doc of the group.
function(sheaf_tablegen_passes TARGET GROUP)
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name=${GROUP} EXTRA_INCLUDES ${PROJECT_SOURCE_DIR})
  add_public_tablegen_target(${TARGET})
endfunction()

# The documentation of the dialect that TD defines, as mlir-tblgen writes it:
# DIALECT.md in the current folder of the build, for the language server and docs/.
function(sheaf_dialect_doc TD DIALECT)
  set(LLVM_TARGET_DEFINITIONS ${TD})
  mlir_tablegen(${DIALECT}.md -gen-dialect-doc -dialect=${DIALECT})
  add_custom_target(sheaf-doc-${DIALECT} DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${DIALECT}.md)
  set_property(GLOBAL APPEND PROPERTY SHEAF_DIALECT_DOCS ${CMAKE_CURRENT_BINARY_DIR}/${DIALECT}.md)
  set_property(GLOBAL APPEND PROPERTY SHEAF_DIALECT_DOC_TARGETS sheaf-doc-${DIALECT})
endfunction()
