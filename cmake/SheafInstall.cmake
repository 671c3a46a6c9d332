# `cmake --install`: the programs, and what plugins are built against, which
# find_package(Sheaf) finds.

set(SHEAF_TOOLS_DIR ${CMAKE_BINARY_DIR}/bin)

foreach(folder dialects support compiler runtime/include)
  cmake_path(GET folder PARENT_PATH parent)
  foreach(root ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    install(DIRECTORY ${root}/${folder} DESTINATION include/sheaf-compiler/${parent}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc" PATTERN "CMakeFiles" EXCLUDE)
  endforeach()
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/lib/libSheafNN.a DESTINATION lib/sheaf)
include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/SheafConfig.cmake.in
  ${PROJECT_BINARY_DIR}/SheafConfig.cmake INSTALL_DESTINATION lib/cmake/Sheaf)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/SheafConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/SheafConfig.cmake
  ${PROJECT_BINARY_DIR}/SheafConfigVersion.cmake ${PROJECT_SOURCE_DIR}/cmake/SheafPlugin.cmake
  DESTINATION lib/cmake/Sheaf)
