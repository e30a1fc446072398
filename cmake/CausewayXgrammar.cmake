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
set(xgrammar_includes
  ${CAUSEWAY_XGRAMMAR_SOURCE}/include
  ${CAUSEWAY_XGRAMMAR_SOURCE}/3rdparty/picojson
  ${CAUSEWAY_XGRAMMAR_SOURCE}/3rdparty/dlpack/include)
set(xgrammar_definitions
  XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)
# GCC compiles it, with the same options in every build, so that the compiler's cache has it for all.
# Its variants of incomplete types are not C++ to Clang: the builds with sanitizers, which are
# Clang's, do not watch it.
set(xgrammar_flags -O2 -w -g0 -fPIC -std=c++20 ${kCollectLate})
list(TRANSFORM xgrammar_includes PREPEND -I OUTPUT_VARIABLE include_flags)
list(TRANSFORM xgrammar_definitions PREPEND -D OUTPUT_VARIABLE definition_flags)
find_program(CAUSEWAY_GCC NAMES g++ REQUIRED)
# Joined to a few files, which costs a quarter less: each alone reads the same headers and instantiates
# the same templates. The joined files lie beside the sources, for the compiler's cache.
set(xgrammar_joined)
set(first 0)
list(LENGTH xgrammar_sources count)
while(first LESS count)
  list(SUBLIST xgrammar_sources ${first} 5 some)
  set(content)
  foreach(source IN LISTS some)
    file(RELATIVE_PATH name ${CAUSEWAY_XGRAMMAR_SOURCE}/joined ${source})
    string(APPEND content "#include \"${name}\"\n")
  endforeach()
  set(joined ${CAUSEWAY_XGRAMMAR_SOURCE}/joined/from_${first}.cc)
  file(CONFIGURE OUTPUT ${joined} CONTENT "${content}" @ONLY)
  list(APPEND xgrammar_joined ${joined})
  math(EXPR first "${first} + 5")
endwhile()
set(xgrammar_objects)
foreach(source IN LISTS xgrammar_joined)
  get_filename_component(name ${source} NAME)
  set(object ${CMAKE_BINARY_DIR}/xgrammar/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/xgrammar
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${CAUSEWAY_GCC} ${definition_flags} ${include_flags}
            ${xgrammar_flags} -c ${source} -o ${object}
    DEPENDS ${source} ${xgrammar_sources} VERBATIM COMMENT "Building XGrammar's ${name}")
  list(APPEND xgrammar_objects ${object})
endforeach()
set_source_files_properties(${xgrammar_objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_library(xgrammar STATIC ${xgrammar_objects})
set_target_properties(xgrammar PROPERTIES LINKER_LANGUAGE CXX)
target_include_directories(xgrammar SYSTEM PUBLIC ${xgrammar_includes})
set(CAUSEWAY_HAVE_XGRAMMAR ON)
message(STATUS "XGrammar: sources in ${CAUSEWAY_XGRAMMAR_SOURCE}")
