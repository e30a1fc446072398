# Builds with CAUSEWAY_PRECOMPILED, which are the sanitizers' and the demo's, read the common headers
# from one precompiled header: reading them is a third of what compiling costs. Other builds have none,
# so that they notice a header that a file uses and does not include.
#
# causeway_precompiled(TARGET…)   these targets read it.
# causeway_unoptimized(TARGET…)   likewise; and under a sanitizer they are compiled with -O0, which halves
#                                 the cost: for tests and the program, where little time is spent running.
function(causeway_precompiled)
  _causeway_precompiled(causeway_precompiled_headers "" ${ARGN})
endfunction()

function(causeway_unoptimized)
  if(CAUSEWAY_SANITIZE)
    _causeway_precompiled(causeway_unoptimized_headers -O0 ${ARGN})
  else()
    causeway_precompiled(${ARGN})
  endif()
endfunction()

# A compiler takes a precompiled header only with the options that it was made with.
function(_causeway_precompiled headers options)
  if(NOT CAUSEWAY_PRECOMPILED)
    return()
  endif()
  if(NOT TARGET ${headers})
    file(WRITE ${CMAKE_BINARY_DIR}/precompiled/empty.cc "")
    add_library(${headers} OBJECT ${CMAKE_BINARY_DIR}/precompiled/empty.cc)
    target_compile_options(${headers} PRIVATE ${options})
    target_link_libraries(${headers} PRIVATE
      spdlog::spdlog nlohmann_json::nlohmann_json Threads::Threads)
    target_precompile_headers(${headers} PRIVATE
      <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque>
      <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span>
      <sstream> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>
      <nlohmann/json.hpp> <spdlog/spdlog.h>)
    if(CAUSEWAY_TESTS)
      target_link_libraries(${headers} PRIVATE GTest::gmock)
      target_precompile_headers(${headers} PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
    endif()
  endif()
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE ${options})
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endforeach()
endfunction()
