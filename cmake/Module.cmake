function(make_shareable target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
                        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# One program of a module's tests, each of which ctest runs alone. Those whose names match INTEGRATION take longer than
# unit tests may, and have that label.
function(add_module_tests target)
  cmake_parse_arguments(T "" "MODULE;INTEGRATION" "SRCS;LIBS" ${ARGN})
  add_executable(${target} ${T_SRCS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow ${YARD_TEST_OPTIONS})
  if(TARGET pch_test)
    target_precompile_headers(${target} REUSE_FROM pch_test)
  endif()
  target_link_libraries(${target} PRIVATE ${PROJECT_NAME}::${T_MODULE} ${T_LIBS} GTest::gmock_main)
  set(unit "")
  if(T_INTEGRATION)
    set(unit TEST_FILTER "-${T_INTEGRATION}")
    gtest_discover_tests(${target} TEST_PREFIX ${T_MODULE}. TEST_FILTER "${T_INTEGRATION}"
                         DISCOVERY_TIMEOUT 60 PROPERTIES LABELS integration TIMEOUT 60)
  endif()
  gtest_discover_tests(${target} TEST_PREFIX ${T_MODULE}. ${unit}
                       DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit TIMEOUT 60)
endfunction()

# Modules whose stress tests alone are built: sanitizers take long to compile for.
set(YARD_STRESS_ONLY "" CACHE STRING "Modules of which only the stress tests are built")

# add_module(<name> [SHAREABLE] SRCS ... [DEPS <module>...] [LIBS <external target>...] [TESTS ...]
#            [INTEGRATION <pattern>] [STRESS ...])
#
# One static library per module. DEPS are modules of ours and are public; LIBS are third-party and
# stay private, so that no other module sees their headers. tools/check_layers.py reads the DEPS.
# SHAREABLE ones may become part of a shared library, which shows none of their symbols. STRESS tests
# draw what they do from seeds, and can go on for as long as one likes; they are a program of their own.
# INTEGRATION names those of TESTS that wait for seconds.
function(add_module name)
  cmake_parse_arguments(M "SHAREABLE" "INTEGRATION" "SRCS;DEPS;LIBS;TESTS;STRESS" ${ARGN})
  add_library(${name} STATIC ${M_SRCS})
  add_library(${PROJECT_NAME}::${name} ALIAS ${name})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
  target_compile_definitions(${name} PUBLIC JSON_USE_IMPLICIT_CONVERSIONS=0)
  if(M_SHAREABLE)
    make_shareable(${name})
  endif()
  if(TARGET pch AND M_SHAREABLE)
    target_precompile_headers(${name} REUSE_FROM pch_shareable)
  elseif(TARGET pch)
    target_precompile_headers(${name} REUSE_FROM pch)
  endif()
  list(TRANSFORM M_DEPS PREPEND ${PROJECT_NAME}::)
  target_link_libraries(${name} PUBLIC ${M_DEPS} PRIVATE ${M_LIBS})
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(M_TESTS AND NOT name IN_LIST YARD_STRESS_ONLY)
    add_module_tests(${name}_test MODULE ${name} SRCS ${M_TESTS} LIBS ${M_LIBS}
                     INTEGRATION ${M_INTEGRATION})
  endif()
  if(M_STRESS)
    add_module_tests(${name}_stress_test MODULE ${name} SRCS ${M_STRESS} LIBS ${M_LIBS})
  endif()
endfunction()
