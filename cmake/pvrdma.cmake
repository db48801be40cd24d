# Functions for every folder's CMakeLists.txt: one static library per folder, with its tests, fuzzers and benches.

# The compile options of a target. With AddressSanitizer, checks that cost much compile time and find little are left to
# PVRDMA_WHOLE_TESTS. Product code: a null pointer, a pointer outside its object, an object of the wrong class: where
# such a pointer is used, AddressSanitizer reports the access; and an address that is not aligned for its type.
# TEST_CODE: undefined behaviour, and a border around each variable on the stack.
function(pvrdma_compile_options target)
  cmake_parse_arguments(ARG "TEST_CODE" "" "" ${ARGN})
  set(sanitize "-fsanitize=${PVRDMA_SANITIZE}")
  if(NOT PVRDMA_WHOLE_TESTS AND PVRDMA_SANITIZE MATCHES "address" AND NOT PVRDMA_FUZZ)
    if(ARG_TEST_CODE)
      string(REPLACE ",undefined" "" sanitize "${sanitize}")
      list(APPEND sanitize "SHELL:--param asan-stack=0" "SHELL:--param asan-instrumentation-with-call-threshold=0")
    else()
      list(APPEND sanitize -fno-sanitize=alignment,null,object-size,vptr)
    endif()
  endif()
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers
                                           $<$<BOOL:${PVRDMA_WERROR}>:-Werror>)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  if(PVRDMA_SANITIZE)
    target_compile_options(${target} PRIVATE ${sanitize} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${PVRDMA_SANITIZE})
  endif()
  if(PVRDMA_FUZZ)
    target_compile_options(${target} PUBLIC -fsanitize=fuzzer-no-link)
  endif()
  if(PVRDMA_COVERAGE)
    target_compile_options(${target} PUBLIC --coverage -fprofile-update=atomic)
    target_link_options(${target} PUBLIC --coverage)
  endif()
endfunction()

# With PVRDMA_UNITY, eight sources of a target at a time are compiled as one, because most of their cost is the
# headers that they share. Sources named after ALONE are compiled separately: they have helpers with the same names as
# helpers of another source. In a unity build -Wshadow is off, because a local name may equal another source's helper;
# builds without unity find real shadowing.
function(pvrdma_unity target)
  if(PVRDMA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    target_compile_options(${target} PRIVATE -Wno-shadow)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# Makes pvrdma_headers, and pvrdma_test_headers for test code: the headers of other projects that most sources include,
# compiled once. Each source pays for the whole list: with nlohmann/json.hpp, fmt/format.h and rarer headers of the
# standard library in it, a source that uses none of these took twice as long. Call it once.
function(pvrdma_precompile)
  set(empty ${CMAKE_BINARY_DIR}/empty.cc)
  file(CONFIGURE OUTPUT ${empty} CONTENT "")
  set(headers <algorithm> <array> <atomic> <chrono> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view>
              <thread> <utility> <vector> <fmt/core.h>)
  add_library(pvrdma_headers OBJECT EXCLUDE_FROM_ALL ${empty})
  pvrdma_compile_options(pvrdma_headers)
  target_link_libraries(pvrdma_headers PRIVATE fmt::fmt)
  target_precompile_headers(pvrdma_headers PRIVATE ${headers})
  if(BUILD_TESTING)
    add_library(pvrdma_test_headers OBJECT EXCLUDE_FROM_ALL ${empty})
    pvrdma_compile_options(pvrdma_test_headers TEST_CODE)
    target_link_libraries(pvrdma_test_headers PRIVATE fmt::fmt GTest::gmock)
    target_precompile_headers(pvrdma_test_headers PRIVATE ${headers} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endfunction()

# With PVRDMA_PRECOMPILE, lets a target read the headers that `headers` has compiled. It gets the macros with which fmt was
# compiled there: the compiler refuses headers whose macros differ.
function(pvrdma_use_precompiled target headers)
  if(PVRDMA_PRECOMPILE)
    target_link_libraries(${target} PRIVATE fmt::fmt)
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
endfunction()

# pvrdma_library(NAME SOURCES a.cc ... [ALONE a.cc ...] [DEPS ...] [PRIVATE_DEPS ...]): static library pvrdma_NAME.
# DEPS are the libraries of the folders that it includes. docs/architecture.md says which folder may include which;
# tools/check enforces it.
function(pvrdma_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(pvrdma_${name} STATIC EXCLUDE_FROM_ALL ${ARG_SOURCES})
  pvrdma_compile_options(pvrdma_${name})
  pvrdma_unity(pvrdma_${name} ${ARG_ALONE})
  target_link_libraries(pvrdma_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  pvrdma_use_precompiled(pvrdma_${name} pvrdma_headers)
endfunction()

# pvrdma_test(NAME SOURCES a_test.cc ... [ALONE a_test.cc ...] [DEPS ...] [LABEL unit] [SHARDS n]
# [THREADS | THREADS_IN_FULL | UNSANITIZED]): one test program. ctest runs all its cases in one process, or spreads them over n processes to keep all cores busy.
# THREADS: it runs code in several threads. Only such programs are built for ThreadSanitizer, which finds nothing in others.
# THREADS_IN_FULL: for ThreadSanitizer only with PVRDMA_WHOLE_TESTS, because it takes long and a shorter one is THREADS.
# UNSANITIZED: it counts allocations, memory or descriptors, which a sanitizer changes. No sanitizer preset builds it.
function(pvrdma_test name)
  cmake_parse_arguments(ARG "THREADS;THREADS_IN_FULL;UNSANITIZED" "LABEL;SHARDS" "SOURCES;ALONE;DEPS" ${ARGN})
  if(ARG_THREADS_IN_FULL AND PVRDMA_WHOLE_TESTS)
    set(ARG_THREADS ON)
  endif()
  if(NOT BUILD_TESTING OR PVRDMA_FUZZ OR (PVRDMA_SANITIZE STREQUAL "thread" AND NOT ARG_THREADS)
     OR (PVRDMA_SANITIZE AND ARG_UNSANITIZED))
    return()
  endif()
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  pvrdma_compile_options(${name} TEST_CODE)
  pvrdma_unity(${name} ${ARG_ALONE})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  pvrdma_use_precompiled(${name} pvrdma_test_headers)
  if(ARG_LABEL STREQUAL unit)
    add_dependencies(unit_tests ${name})
  endif()
  if(ARG_UNSANITIZED)
    add_dependencies(unsanitized_tests ${name})
    list(APPEND ARG_LABEL unsanitized)
  endif()
  pvrdma_add_cases(${name} "${ARG_LABEL}" "${ARG_SHARDS}")
endfunction()

# Tells ctest of a program: as one test, or as `shards` tests, which ctest starts before the others.
function(pvrdma_add_cases name labels shards)
  if(NOT shards)
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600)
    return()
  endif()
  math(EXPR last "${shards} - 1")
  foreach(index RANGE ${last})
    add_test(NAME ${name}.${index} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name}.${index} PROPERTIES LABELS "${labels}" TIMEOUT 600 COST ${shards}
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# pvrdma_environment(NAME VARIABLE=value ...): the environment in which ctest runs a program of this folder, if it is built.
function(pvrdma_environment name)
  get_property(tests DIRECTORY PROPERTY TESTS)
  list(FILTER tests INCLUDE REGEX "^${name}(\\.[0-9]+)?$")
  if(tests)
    set_property(TEST ${tests} APPEND PROPERTY ENVIRONMENT ${ARGN})
  endif()
endfunction()

# pvrdma_fuzz(NAME SOURCES x_fuzz.cc [DEPS ...] [CANARY]): a fuzzer. With the fuzz preset it is a libFuzzer program,
# which tools/fuzz runs. With other presets it is a program that replays tests/fuzz-corpus/NAME as a test. CANARY: it
# has a bug, which tools/fuzz must find and whose replay (tests/fuzz/NAME.crash/) the sanitizer must report.
function(pvrdma_fuzz name)
  cmake_parse_arguments(ARG "CANARY" "" "SOURCES;DEPS" ${ARGN})
  if(NOT BUILD_TESTING OR PVRDMA_SANITIZE STREQUAL "thread" OR (ARG_CANARY AND NOT PVRDMA_SANITIZE MATCHES "address"))
    return()
  endif()
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz-corpus/${name})
  if(ARG_CANARY)
    set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/${name}.crash)
  endif()
  if(PVRDMA_FUZZ)
    add_executable(${name} ${ARG_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name}.replay COMMAND ${name} -runs=0 -timeout=20 ${corpus})
    add_dependencies(fuzzers ${name})
    set_property(GLOBAL APPEND_STRING PROPERTY PVRDMA_FUZZERS
                                               "${name}\t$<TARGET_FILE:${name}>\t$<IF:$<BOOL:${ARG_CANARY}>,canary,->\n")
  else()
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE fuzz_replay_main)
    add_test(NAME ${name}.replay COMMAND ${name} ${corpus})
  endif()
  pvrdma_compile_options(${name})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  pvrdma_use_precompiled(${name} pvrdma_headers)
  set_tests_properties(${name}.replay PROPERTIES LABELS fuzz TIMEOUT 300)
  if(ARG_CANARY)
    set_tests_properties(${name}.replay PROPERTIES PASS_REGULAR_EXPRESSION "AddressSanitizer: heap-buffer-overflow")
  endif()
endfunction()

# Makes a target that builds all fuzzers, and a list of them for tools/fuzz. Call it once, after all fuzzers are
# defined.
function(pvrdma_list_fuzzers)
  get_property(fuzzers GLOBAL PROPERTY PVRDMA_FUZZERS)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/fuzzers.tsv CONTENT "${fuzzers}")
endfunction()

# A program that VM, cluster, process and soak tests and benches start. The target `programs` builds it. ctest does not
# need it, so `all` leaves it out of a sanitizer's build. CLI: tests/cli starts it, so ctest needs it with AddressSanitizer,
# and with PVRDMA_WHOLE_TESTS.
function(pvrdma_not_for_ctest target)
  cmake_parse_arguments(ARG "CLI" "" "" ${ARGN})
  set(needed OFF)
  if(ARG_CLI AND (PVRDMA_WHOLE_TESTS OR PVRDMA_SANITIZE MATCHES "address"))
    set(needed ON)
  endif()
  if(PVRDMA_SANITIZE AND NOT needed)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  add_dependencies(programs ${target})
endfunction()

# pvrdma_program(NAME [CLI] SOURCES a.cc ... [DEPS ...]): such a program of the tests.
function(pvrdma_program name)
  cmake_parse_arguments(ARG "CLI" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  pvrdma_compile_options(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  pvrdma_use_precompiled(${name} pvrdma_headers)
  if(ARG_CLI)
    pvrdma_not_for_ctest(${name} CLI)
  else()
    pvrdma_not_for_ctest(${name})
  endif()
endfunction()

# pvrdma_bench(NAME SOURCES x_bench.cc [DEPS ...]): a Google Benchmark program, which ctest never runs. `make bench` and
# `make test-full` build it.
function(pvrdma_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT benchmark_FOUND OR PVRDMA_FUZZ OR PVRDMA_SANITIZE)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  pvrdma_compile_options(${name})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} benchmark::benchmark)
endfunction()
