# Compiler settings common to every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# In what users run CAUSEWAY_CHECK stays and symbols are readable; CAUSEWAY_DCHECK and assert are of
# the other builds.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
# Of the sanitizer presets and the demo's, where compile time is most of the cost.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
set(CMAKE_CXX_FLAGS_DEMO "-O1 -DNDEBUG")

find_program(CAUSEWAY_CCACHE ccache)
# One precompiled header serves programs and libraries.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fPIC>")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(CMAKE_PCH_INSTANTIATE_TEMPLATES ON)
  # The same bytes whenever it is made, for the compiler cache.
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
if(CAUSEWAY_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CAUSEWAY_CCACHE})
  # Without these ccache leaves what reads a precompiled header alone.
  list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CAUSEWAY_CCACHE})
endif()

# g++ looks for memory to use again only above so many kB, which took a tenth of the time of joined
# files; they take a quarter more memory, most of them below 1.2 GB.
set(kCollectLate --param=ggc-min-heapsize=3000000)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${kCollectLate}>")
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor>")
if(CAUSEWAY_WERROR)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
# Paths in messages are relative to the root, and builds in different folders share the cache.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>")
include_directories(${CMAKE_SOURCE_DIR}/src)
# Where it is there, test programs and those with sanitizers are linked by it, which takes a quarter of
# the time; what users run is linked as everywhere.
find_program(CAUSEWAY_LLD ld.lld)

if(CAUSEWAY_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${CAUSEWAY_SANITIZE};-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=${CAUSEWAY_SANITIZE} $<$<BOOL:${CAUSEWAY_LLD}>:-fuse-ld=lld>)
  if(CAUSEWAY_SANITIZE MATCHES "undefined")
    # The option's former name, by which ccache knows that the file counts; relative to the build
    # folder, so that folders share the cache.
    file(RELATIVE_PATH ignorelist ${CMAKE_BINARY_DIR}
         ${CMAKE_SOURCE_DIR}/cmake/sanitizer_ignorelist.txt)
    add_compile_options(
      "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all;-fsanitize-blacklist=${ignorelist}>")
  endif()
endif()
if(CAUSEWAY_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "fuzz targets need clang with libFuzzer: use the preset `asan`")
  endif()
  # What libFuzzer wants to see, for modules with fuzz targets alone (CausewayModule.cmake): it makes
  # the others' tests slower. As an option of the code generator it goes with any precompiled header.
  set(kFuzzedOptions
    -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table,stack-depth)
endif()

set(CAUSEWAY_HAVE_CUDA OFF)
if(NOT CAUSEWAY_CUDA STREQUAL "OFF")
  find_program(CAUSEWAY_NVCC nvcc PATHS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
  if(CAUSEWAY_NVCC)
    set(CMAKE_CUDA_COMPILER ${CAUSEWAY_NVCC})
    # Without PTX, which only the same GPUs could compile again: it was half of the code's bytes.
    set(CMAKE_CUDA_ARCHITECTURES 90a-real)
    enable_language(CUDA)
    # nvcc 13 has C++20; CMake 3.25 must be told by which option.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-static-global-template-stub=false>")
    find_package(CUDAToolkit REQUIRED)
    set(CAUSEWAY_HAVE_CUDA ON)
    message(STATUS "CUDA parts: built with ${CMAKE_CUDA_COMPILER_ID} ${CMAKE_CUDA_COMPILER_VERSION}")
  elseif(CAUSEWAY_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CAUSEWAY_CUDA=ON, but nvcc was not found: install the CUDA 13.0 toolkit")
  else()
    message(STATUS "CUDA parts: left out (nvcc was not found)")
  endif()
endif()

# scripts/lib.sh puts FlashInfer's headers there.
set(CAUSEWAY_HAVE_FLASHINFER OFF)
set(CAUSEWAY_FLASHINFER_INCLUDE ${CMAKE_SOURCE_DIR}/.cache/flashinfer-0.6.9/include)
if(CAUSEWAY_HAVE_CUDA AND NOT CAUSEWAY_FLASHINFER STREQUAL "OFF")
  if(EXISTS ${CAUSEWAY_FLASHINFER_INCLUDE}/flashinfer/attention/prefill.cuh)
    set(CAUSEWAY_HAVE_FLASHINFER ON)
    message(STATUS "FlashInfer: headers in ${CAUSEWAY_FLASHINFER_INCLUDE}")
  elseif(CAUSEWAY_FLASHINFER STREQUAL "ON")
    message(FATAL_ERROR "CAUSEWAY_FLASHINFER=ON, but ${CAUSEWAY_FLASHINFER_INCLUDE} is missing: run scripts/test setup")
  else()
    message(STATUS "FlashInfer: left out (no headers; scripts/test setup fetches them)")
  endif()
endif()

find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
if(CAUSEWAY_TESTS)
  find_package(GTest REQUIRED)
endif()
if(CAUSEWAY_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
