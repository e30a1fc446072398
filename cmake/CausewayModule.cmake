# ctest knows from earlier runs alone which tests take long; in a fresh folder it is told, so that none
# of them runs when all others have ended. Tests that take above half a minute have this COST.
set(kLongTestCost 60)
set(kLongModuleTests device_test model_test simulate_test slice_test transfer_test worker_test)

# causeway_module(NAME [LINK public libraries and modules…] [LINK_PRIVATE libraries…]
#                 [EXCLUDE pattern of paths that are built otherwise]
#                 [OPTIMIZED | OPTIMIZED_WHERE_TESTED | OPTIMIZED_WHERE_RACING]
#                 [OWN_OBJECT whole paths…] [NO_THREADS | THREADED_TESTS files…])
#
# Makes the module of the current folder from what lies in it, at any depth:
#   *.cc          the library causeway_NAME (alias causeway::NAME)
#   *.cu          in the library too, when CUDA parts are built; what has no device code is compiled
#                 as C++ is
#   x_test.cu     one program x_gpu_test each, and x_bench.cu: x_gpu_bench; built wherever nvcc is,
#                 run on machines with a GPU
#   *_test.cc     one test program NAME_test, registered with ctest under the same name
#   *_bench.cc    one program NAME_bench (Google Benchmark)
#   x_fuzz.cc     one libFuzzer program x_fuzz each (only with CAUSEWAY_FUZZ); `fuzzers` builds all
#   testing/*.cc  the library causeway_NAME_testing: helpers for tests of this and higher modules
#   testing/*.cu  the library causeway_NAME_gpu_testing: helpers of GPU tests and benchmarks
# Files are found by pattern, so that no test can be forgotten.
#
# OPTIMIZED: under sanitizers too, where other modules are compiled with -O0. The tests of those others
# are compiled with -O0 in every build.
# OPTIMIZED_WHERE_TESTED: likewise, but for the thread sanitizer, which runs few of its tests or none.
# OPTIMIZED_WHERE_RACING: likewise, but for the address sanitizer, where its tests wait for the system
# longer than they compute.
# OWN_OBJECT: these sources are joined with each other alone, since a program of tests brings others in
# their place: a linker takes an object of an archive whole, or leaves it.
# NO_THREADS: no file of the module starts a thread, so that its tests would prove nothing under the
# thread sanitizer, and are not built there. That no file names one is checked here.
# In a build with CAUSEWAY_LEAN the test programs of modules that say none of these are left out, since
# the sanitizers' lanes run them and their random cases are few; and `all` is without programs for
# GPUs.
# THREADED_TESTS: the test program of the thread sanitizer is made of these files alone, because one
# thread runs in the module's other tests. That no other test names one is checked here.
function(causeway_module name)
  cmake_parse_arguments(arg
    "OPTIMIZED;OPTIMIZED_WHERE_TESTED;OPTIMIZED_WHERE_RACING;NO_THREADS" "EXCLUDE"
    "LINK;LINK_PRIVATE;LINK_TEST;OWN_OBJECT;THREADED_TESTS" ${ARGN})
  if((arg_OPTIMIZED_WHERE_TESTED AND NOT CAUSEWAY_SANITIZE MATCHES "thread")
     OR (arg_OPTIMIZED_WHERE_RACING AND NOT CAUSEWAY_SANITIZE MATCHES "address"))
    set(arg_OPTIMIZED TRUE)
  endif()
  file(GLOB_RECURSE all CONFIGURE_DEPENDS *.cc)
  set(run_here TRUE)
  if(CAUSEWAY_LEAN AND NOT arg_OPTIMIZED)
    set(run_here FALSE)
  endif()
  if(arg_EXCLUDE)
    list(FILTER all EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|_bench)\\.cc$|/testing/")
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(arg_THREADED_TESTS AND CAUSEWAY_SANITIZE MATCHES "thread")
    list(TRANSFORM arg_THREADED_TESTS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
    list(REMOVE_ITEM tests ${arg_THREADED_TESTS})
    _causeway_check_no_threads(${name} ${tests})
    set(tests ${arg_THREADED_TESTS})
  endif()
  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  set(fuzzers ${all})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  set(helpers ${all})
  list(FILTER helpers INCLUDE REGEX "/testing/")
  if(CAUSEWAY_HAVE_CUDA)
    file(GLOB_RECURSE cuda_all CONFIGURE_DEPENDS *.cu)
    set(cuda_sources ${cuda_all})
    list(FILTER cuda_sources EXCLUDE REGEX "(_test|_bench)\\.cu$|/testing/")
    causeway_cuda_host_alone(cuda_host ${cuda_sources})
    list(APPEND sources ${cuda_sources})
    set(cuda_helpers ${cuda_all})
    list(FILTER cuda_helpers INCLUDE REGEX "/testing/")
    list(FILTER cuda_helpers EXCLUDE REGEX "(_test|_bench)\\.cu$")
    set(cuda_programs ${cuda_all})
    list(FILTER cuda_programs INCLUDE REGEX "(_test|_bench)\\.cu$")
  endif()

  set(target causeway_${name})
  if(sources)
    set(compiled ${target})
    if(arg_OWN_OBJECT AND CAUSEWAY_TESTS AND NOT CAUSEWAY_SANITIZE)
      list(REMOVE_ITEM sources ${arg_OWN_OBJECT})
      add_library(${target}_own OBJECT ${arg_OWN_OBJECT})
      target_link_libraries(${target}_own PUBLIC ${arg_LINK} PRIVATE ${arg_LINK_PRIVATE})
      list(APPEND compiled ${target}_own)
      list(APPEND sources $<TARGET_OBJECTS:${target}_own>)
    endif()
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC ${arg_LINK} PRIVATE ${arg_LINK_PRIVATE})
    if(arg_OPTIMIZED)
      causeway_optimized(${compiled})
    else()
      causeway_precompiled(${compiled})
    endif()
    if(cuda_host)
      target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    endif()
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_LINK})
  endif()
  add_library(causeway::${name} ALIAS ${target})
  if(cuda_helpers)
    add_library(${target}_gpu_testing STATIC EXCLUDE_FROM_ALL ${cuda_helpers})
    target_link_libraries(${target}_gpu_testing PUBLIC ${target})
  endif()
  foreach(program ${cuda_programs})
    get_filename_component(stem ${program} NAME_WE)
    string(REGEX REPLACE "_(test|bench)$" "_gpu_\\1" stem ${stem})
    add_executable(${stem} ${program})
    causeway_elsewhere(${stem})
    target_link_libraries(${stem} PRIVATE ${target} ${arg_LINK_PRIVATE} CUDA::cublas)
    if(cuda_helpers)
      target_link_libraries(${stem} PRIVATE ${target}_gpu_testing)
    endif()
    causeway_cuda_host_alone(host ${program})
    if(host)
      target_include_directories(${stem} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
      if(CAUSEWAY_TESTS)
        causeway_for_tests(${stem})
        target_link_libraries(${stem} PRIVATE GTest::gtest)  # whose macros those headers have
      endif()
    endif()
  endforeach()

  if(helpers AND CAUSEWAY_TESTS)
    add_library(${target}_testing STATIC ${helpers})
    target_link_libraries(${target}_testing PUBLIC ${target} GTest::gtest)
    _causeway_module_tests("${arg_OPTIMIZED}" ${target}_testing)
    # A test program takes the helpers that it names, not their neighbours' test suites.
    causeway_apart(${target}_testing)
    causeway_elsewhere(${target}_testing)  # where no test here needs them
    add_library(causeway::${name}_testing ALIAS ${target}_testing)
    list(APPEND arg_LINK_TEST ${target}_testing)
  endif()
  if(tests AND CAUSEWAY_TESTS AND run_here)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${target} ${arg_LINK_TEST} ${arg_LINK_PRIVATE}
                          GTest::gmock GTest::gtest_main)
    _causeway_module_tests("${arg_OPTIMIZED}" ${name}_test)
    add_test(NAME ${name}_test COMMAND ${name}_test)
    set_tests_properties(${name}_test PROPERTIES TIMEOUT 1200 LABELS unit)
    if(${name}_test IN_LIST kLongModuleTests)
      set_tests_properties(${name}_test PROPERTIES COST ${kLongTestCost})
    endif()
    if(arg_NO_THREADS)
      file(GLOB_RECURSE files CONFIGURE_DEPENDS *.cc *.h)
      list(FILTER files EXCLUDE REGEX "_bench\\.cc$")
      _causeway_check_no_threads(${name} ${files})
      causeway_unit_test_without_threads(${name}_test)
    else()
      causeway_unit_test(${name}_test)
    endif()
  endif()
  if(benches AND CAUSEWAY_BENCHMARKS)
    add_executable(${name}_bench ${benches})
    causeway_elsewhere(${name}_bench)
    target_link_libraries(${name}_bench PRIVATE ${target} ${arg_LINK_PRIVATE}
                          benchmark::benchmark benchmark::benchmark_main)
  endif()
  if(CAUSEWAY_FUZZ)
    foreach(fuzzer ${fuzzers})
      causeway_fuzzer(${fuzzer} ${target})
    endforeach()
  endif()
endfunction()

# causeway_cuda_host_alone(OUT FILE…): those of the *.cu files, named by whole paths, that have no
# device code, nor has a *.cuh that they include. They need no nvcc, which compiles every file for the
# device too and takes several times as long, and are said to be C++.
function(causeway_cuda_host_alone out)
  set(host)
  foreach(file ${ARGN})
    _causeway_device_code(device ${file})
    if(NOT device)
      # g++ takes a parameter of a function's type for one that hides a member.
      set_source_files_properties(${file} PROPERTIES LANGUAGE CXX SKIP_UNITY_BUILD_INCLUSION ON
        COMPILE_OPTIONS "-Wno-missing-field-initializers;-Wno-shadow")
      list(APPEND host ${file})
    endif()
  endforeach()
  set(${out} "${host}" PARENT_SCOPE)
endfunction()

# Whether the file, or a *.cuh that it includes, has device code. Remembered, as many include the same.
function(_causeway_device_code out file)
  get_property(known GLOBAL PROPERTY "causeway_device_code_${file}" SET)
  get_property(device GLOBAL PROPERTY "causeway_device_code_${file}")
  if(NOT known)
    set(device FALSE)
    file(STRINGS ${file} lines REGEX
         "__global__|__device__|__shared__|CAUSEWAY_DEVICE|<<<|#include \"[^\"]*\\.cuh\"")
    foreach(line ${lines})
      if(NOT line MATCHES "#include \"([^\"]*)\"")
        set(device TRUE)
      elseif(NOT device)
        _causeway_device_code(device ${PROJECT_SOURCE_DIR}/src/${CMAKE_MATCH_1})
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY "causeway_device_code_${file}" ${device})
  endif()
  set(${out} ${device} PARENT_SCOPE)
endfunction()

# Targets that no test of scripts/test needs, or one of another of its lanes.
function(causeway_elsewhere)
  if(CAUSEWAY_LEAN)
    set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

function(_causeway_module_tests optimized target)
  if(optimized)
    causeway_for_tests(${target})
  else()
    causeway_for_light_tests(${target})
  endif()
endfunction()

# causeway_fuzzer(FILE LIBRARY): the program of one x_fuzz.cc, which sees what the library does;
# `fuzzers` builds all.
function(causeway_fuzzer file library)
  get_filename_component(stem ${file} NAME_WE)
  get_target_property(seen ${library} COMPILE_OPTIONS)
  if(NOT seen MATCHES "sanitize-coverage")
    target_compile_options(${library} PRIVATE ${kFuzzedOptions})
  endif()
  add_executable(${stem} ${file})
  target_compile_options(${stem} PRIVATE ${kFuzzedOptions})
  target_link_libraries(${stem} PRIVATE ${library})
  target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${stem})
endfunction()

# Programs of tests with the label `unit`: the target `unit_tests` builds them, and no more.
function(causeway_unit_test)
  if(NOT TARGET unit_tests)
    add_custom_target(unit_tests)
  endif()
  add_dependencies(unit_tests ${ARGN})
endfunction()

# Those in which at most one thread runs: none of the thread sanitizer's.
function(causeway_unit_test_without_threads)
  if(CAUSEWAY_SANITIZE MATCHES "thread")
    set_tests_properties(${ARGN} PROPERTIES LABELS single_threaded)
  else()
    causeway_unit_test(${ARGN})
  endif()
endfunction()

function(_causeway_check_no_threads name)
  foreach(file ${ARGN})
    file(STRINGS ${file} thread LIMIT_COUNT 1 REGEX "std::j?thread|std::async|pthread_create")
    if(thread)
      message(FATAL_ERROR
        "module ${name} says that no thread is started in ${file}, which names one: ${thread}")
    endif()
  endforeach()
endfunction()

# A program of a module, where it is built, that needs libraries which only a build with tests has:
# without tests it is left out of `all`.
function(causeway_needs_testing target)
  if(NOT TARGET ${target})
    return()
  endif()
  if(CAUSEWAY_TESTS)
    target_link_libraries(${target} PRIVATE ${ARGN})
  else()
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# causeway_planted(OUT SOURCE…)
#
# OUT: the sources, of which those that have patches in canaries/ beside them are copies with all of
# their planted bugs (docs/decisions/0015-planted-bugs.md). A patch names its source in its first line.
function(causeway_planted out)
  set(planted)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
    file(GLOB all CONFIGURE_DEPENDS ${folder}/canaries/*.patch)
    set(patches)
    foreach(patch ${all})
      file(STRINGS ${patch} first LIMIT_COUNT 1)
      if(first STREQUAL "--- a/${name}")
        list(APPEND patches ${patch})
      endif()
    endforeach()
    if(patches)
      set(copy ${CMAKE_CURRENT_BINARY_DIR}/planted/${name})
      list(JOIN patches "|" joined)
      add_custom_command(OUTPUT ${copy}
        COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DCOPY=${copy} "-DPATCHES=${joined}"
                -P ${PROJECT_SOURCE_DIR}/cmake/CausewayPlant.cmake
        DEPENDS ${source} ${patches} ${PROJECT_SOURCE_DIR}/cmake/CausewayPlant.cmake
        COMMENT "Planting bugs in ${name}" VERBATIM)
      set(source ${copy})
    endif()
    list(APPEND planted ${source})
  endforeach()
  set(${out} ${planted} PARENT_SCOPE)
endfunction()
