# lit tests: every .mlir and .test file below test/ is one ctest test, so that
# ctest counts and names them one by one.

find_program(MIXLE_LIT NAMES lit llvm-lit lit.py
  HINTS ${LLVM_TOOLS_BINARY_DIR} NO_DEFAULT_PATH)
if(NOT MIXLE_LIT)
  find_program(MIXLE_LIT NAMES lit llvm-lit)
endif()
find_package(Python3 COMPONENTS Interpreter REQUIRED)
if(NOT MIXLE_LIT)
  message(FATAL_ERROR "lit was not found; it comes with the package llvm-22-tools. "
    "Configure with -DMIXLE_BUILD_TESTS=OFF to build without tests.")
endif()

# The tools that tests may call: their folders come first in PATH.
set(MIXLE_TOOL_DIRECTORIES)
foreach(tool mixle-opt mixle-interpret mixle-compile mixle-run)
  if(TARGET ${tool})
    get_target_property(directory ${tool} BINARY_DIR)
    list(APPEND MIXLE_TOOL_DIRECTORIES ${directory})
  endif()
endforeach()

configure_file(${CMAKE_CURRENT_LIST_DIR}/lit.site.cfg.py.in
               ${CMAKE_CURRENT_BINARY_DIR}/lit.site.cfg.py @ONLY)

file(GLOB_RECURSE lit_files RELATIVE ${CMAKE_CURRENT_LIST_DIR} CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_LIST_DIR}/*.mlir ${CMAKE_CURRENT_LIST_DIR}/*.test)
foreach(file ${lit_files})
  # What lies in an Inputs folder is read by tests and is none.
  if(file MATCHES "(^|/)Inputs/")
    continue()
  endif()
  add_test(NAME lit:${file}
    COMMAND ${Python3_EXECUTABLE} ${MIXLE_LIT} -sv ${CMAKE_CURRENT_BINARY_DIR}/${file})
  # Every lit writes one file of test times; two at once leave it unreadable, and
  # then no lit test starts any more.
  set_tests_properties(lit:${file} PROPERTIES TIMEOUT 300 RESOURCE_LOCK lit)
endforeach()
