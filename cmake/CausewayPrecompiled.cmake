# Precompiled headers: reading the common headers is a third of what compiling a file costs. And joined
# files: the files of a library are compiled kJoinedFiles at a time, as one, which costs half of what
# they cost apart. So the names in the unnamed namespaces of a module's files are different ones. All
# presets have both but `debug`, which notices a header that a file uses and does not include; to work
# on one file for long, configure with -DCAUSEWAY_JOINED=OFF.
#
# causeway_apart(TARGET…)         its files are never joined.
# causeway_precompiled(TARGET…)   these targets are joined and read the headers in builds with
#                                 CAUSEWAY_JOINED and CAUSEWAY_PRECOMPILED. Under a sanitizer and in the
#                                 demo's build with -O0, which more than halves the cost of a file.
# causeway_optimized(TARGET…)     likewise, but never with -O0: for modules whose tests compute for so
#                                 long that optimizing them pays.
# causeway_for_program(TARGET…)   likewise, with precompiled headers in every build: for what only the
#                                 program has. What is served or measured is in the libraries; this
#                                 reads options and writes tables, and is compiled with -O1.
# causeway_for_tests(TARGET…)     likewise, with those of tests, and fewer are joined: who works on a
#                                 test compiles its neighbours too. What a test file has is in a namespace
#                                 of its name. What is measured is in the libraries; the tests' own code
#                                 is compiled with -O1, and without line numbers for a debugger, which a
#                                 failed check tells itself.
# causeway_for_light_tests(TARGET…)  likewise with -O0: for tests that wait or call the library more
#                                 than they compute.
set(kCommonHeaders
  <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span>
  <sstream> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>
  <nlohmann/json.hpp> <spdlog/spdlog.h>)

set(kJoinedFiles 40)
set(kJoinedTests 10)
if(CAUSEWAY_LEAN)
  set(kJoinedTests 20)  # of the build in which tests are run rather than written
endif()

function(_causeway_joined at_once)
  if(CAUSEWAY_JOINED)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${at_once})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # It takes the file that includes the others for a header.
      foreach(target ${ARGN})
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
      endforeach()
    endif()
  endif()
endfunction()

function(causeway_apart)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD OFF)
endfunction()

function(causeway_precompiled)
  _causeway_level("" level)
  _causeway_joined(${kJoinedFiles} ${ARGN})
  if(CAUSEWAY_PRECOMPILED)
    _causeway_precompiled(causeway_common_headers "${level}" "" "" ${ARGN})
  endif()
endfunction()

function(causeway_optimized)
  _causeway_level("" level)
  set(headers causeway_common_headers)
  if(level)
    set(headers causeway_optimized_headers)
  endif()
  _causeway_joined(${kJoinedFiles} ${ARGN})
  if(CAUSEWAY_PRECOMPILED)
    _causeway_precompiled(${headers} "" "" "" ${ARGN})
  endif()
endfunction()

function(causeway_for_program)
  _causeway_level(-O1 level)
  _causeway_joined(${kJoinedFiles} ${ARGN})
  if(CAUSEWAY_JOINED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    foreach(target ${ARGN})  # a local name may be another file's; coroutines beside others mislead it
      target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow;-Wno-mismatched-new-delete>)
    endforeach()
  endif()
  if(level STREQUAL "-O1")
    _causeway_precompiled(causeway_program_headers "${level}" "" "" ${ARGN})
  else()
    _causeway_precompiled(causeway_common_headers "${level}" "" "" ${ARGN})
  endif()
endfunction()

function(causeway_for_tests)
  _causeway_tests(causeway_test_headers "-O1;-g0" ${ARGN})
endfunction()

function(causeway_for_light_tests)
  if(CAUSEWAY_SANITIZE)
    causeway_for_tests(${ARGN})
  else()
    _causeway_tests(causeway_light_test_headers "-O0;-g0" ${ARGN})
  endif()
endfunction()

function(_causeway_tests headers plain)
  _causeway_level("${plain}" level)
  _causeway_joined(${kJoinedTests} ${ARGN})
  _causeway_precompiled(${headers} "${level}" GTest::gmock
    "<gmock/gmock.h>;<gtest/gtest.h>" ${ARGN})
  foreach(target ${ARGN})
    target_link_options(${target} PRIVATE $<$<BOOL:${CAUSEWAY_LLD}>:-fuse-ld=lld>)
  endforeach()
endfunction()

function(_causeway_level plain level)
  if(CAUSEWAY_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Demo")
    set(plain -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL Debug)
    set(plain "")
  endif()
  set(${level} "${plain}" PARENT_SCOPE)
endfunction()

# A compiler takes a precompiled header only with the options that it was made with.
function(_causeway_precompiled headers options libraries more)
  if(NOT TARGET ${headers})
    file(WRITE ${CMAKE_BINARY_DIR}/precompiled/empty.cc "")
    add_library(${headers} OBJECT ${CMAKE_BINARY_DIR}/precompiled/empty.cc)
    target_compile_options(${headers} PRIVATE ${options})
    target_link_libraries(${headers} PRIVATE
      spdlog::spdlog nlohmann_json::nlohmann_json Threads::Threads ${libraries})
    target_precompile_headers(${headers} PRIVATE ${kCommonHeaders} ${more})
  endif()
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endforeach()
endfunction()
