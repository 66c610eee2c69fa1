# Small helpers shared by every CMakeLists.txt of the project.

# mixle_add_library(name SOURCES... LINK libs...)
#   A static library of the runtime: C++ with exceptions and RTTI, no LLVM.
function(mixle_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# mixle_add_mlir_library(name SOURCES... LINK libs... DEPENDS targets...)
#   A static library of dialects or compiler passes, against the shared libMLIR.
function(mixle_add_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  # The compiler is not where time goes when it runs, but its generated sources
  # are where it goes when it is built: -O1 halves that.
  target_compile_options(${name} PUBLIC -fno-rtti -O1)
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  if(TARGET MixlePch AND NOT name STREQUAL MixlePch)
    target_precompile_headers(${name} REUSE_FROM MixlePch)
  endif()
endfunction()

# mixle_add_test(name SOURCES... LINK libs...)
#   A GoogleTest executable of which ctest counts every case.
function(mixle_add_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main)
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
