function(make_shareable target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
                        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# add_module(<name> [SHAREABLE] SRCS ... [DEPS <module>...] [LIBS <external target>...] [TESTS ...])
#
# One static library per module. DEPS are modules of ours and are public; LIBS are third-party and
# stay private, so that no other module sees their headers. tools/check_layers.py reads the DEPS.
# SHAREABLE ones may become part of a shared library, which shows none of their symbols.
function(add_module name)
  cmake_parse_arguments(M "SHAREABLE" "" "SRCS;DEPS;LIBS;TESTS" ${ARGN})
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
  if(M_TESTS AND BUILD_TESTING)
    add_executable(${name}_test ${M_TESTS})
    target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_options(${name}_test PRIVATE -Wall -Wextra -Wshadow ${YARD_TEST_OPTIONS})
    if(TARGET pch_test)
      target_precompile_headers(${name}_test REUSE_FROM pch_test)
    endif()
    target_link_libraries(${name}_test PRIVATE ${PROJECT_NAME}::${name} ${M_LIBS} GTest::gmock_main)
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}.
                         DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit TIMEOUT 60)
  endif()
endfunction()
