# causeway_precompiled(TARGET…) lets targets read the common headers from one precompiled header, in
# builds with CAUSEWAY_PRECOMPILED: the sanitizers' and the demo's, where reading headers is a third of
# what compiling costs. Other builds have none, so that they notice a header that a file uses and does
# not include.
function(causeway_precompiled)
  if(NOT CAUSEWAY_PRECOMPILED)
    return()
  endif()
  if(NOT TARGET causeway_precompiled_headers)
    file(WRITE ${CMAKE_BINARY_DIR}/precompiled/empty.cc "")
    add_library(causeway_precompiled_headers OBJECT ${CMAKE_BINARY_DIR}/precompiled/empty.cc)
    target_link_libraries(causeway_precompiled_headers PRIVATE
      spdlog::spdlog nlohmann_json::nlohmann_json Threads::Threads)
    target_precompile_headers(causeway_precompiled_headers PRIVATE
      <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque>
      <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span>
      <sstream> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>
      <nlohmann/json.hpp> <spdlog/spdlog.h>)
    if(CAUSEWAY_TESTS)
      target_link_libraries(causeway_precompiled_headers PRIVATE GTest::gmock)
      target_precompile_headers(causeway_precompiled_headers PRIVATE
        <gmock/gmock.h> <gtest/gtest.h>)
    endif()
  endif()
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM causeway_precompiled_headers)
  endforeach()
endfunction()
