# XGrammar's C++ core as a static library of its own, where scripts/lib.sh has put its sources: the
# target `xgrammar`, and CAUSEWAY_HAVE_XGRAMMAR. Its warnings are not ours to mend, and its log goes
# through src/grammar. Its headers are the system's to the compiler.
set(CAUSEWAY_HAVE_XGRAMMAR OFF)
set(CAUSEWAY_XGRAMMAR_SOURCE ${CMAKE_SOURCE_DIR}/.cache/xgrammar-0.1.28)
if(CAUSEWAY_XGRAMMAR STREQUAL "OFF")
  return()
endif()
if(NOT EXISTS ${CAUSEWAY_XGRAMMAR_SOURCE}/include/xgrammar/xgrammar.h)
  if(CAUSEWAY_XGRAMMAR STREQUAL "ON")
    message(FATAL_ERROR "CAUSEWAY_XGRAMMAR=ON, but ${CAUSEWAY_XGRAMMAR_SOURCE} is missing: run scripts/test setup")
  endif()
  message(STATUS "XGrammar: left out (no sources; scripts/test setup fetches them)")
  return()
endif()

file(GLOB_RECURSE xgrammar_sources ${CAUSEWAY_XGRAMMAR_SOURCE}/cpp/*.cc)
list(FILTER xgrammar_sources EXCLUDE REGEX "/cpp/nanobind/")
add_library(xgrammar STATIC ${xgrammar_sources})
target_include_directories(xgrammar SYSTEM PUBLIC
  ${CAUSEWAY_XGRAMMAR_SOURCE}/include
  ${CAUSEWAY_XGRAMMAR_SOURCE}/3rdparty/picojson
  ${CAUSEWAY_XGRAMMAR_SOURCE}/3rdparty/dlpack/include)
target_compile_definitions(xgrammar PRIVATE
  XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)
# Under a sanitizer memory and threads are watched in it, too; its arithmetic is its own.
target_compile_options(xgrammar PRIVATE -w -g0 $<IF:$<BOOL:${CAUSEWAY_SANITIZE}>,-O1,-O2>
  $<$<BOOL:${CAUSEWAY_SANITIZE}>:-fno-sanitize=undefined>)
set(CAUSEWAY_HAVE_XGRAMMAR ON)
message(STATUS "XGrammar: sources in ${CAUSEWAY_XGRAMMAR_SOURCE}")
