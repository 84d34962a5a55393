# Precompiled headers, shared by all modules: the standard library and JSON for our code (once more
# for modules that become part of a shared library), the same and GoogleTest for tests. They save
# about a quarter of a build on two cores. Sources still include what they use: tools/check compiles
# each header alone, and the sanitizer trees build without these
# (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON).
set(YARD_STD_HEADERS
    <algorithm> <atomic> <chrono> <condition_variable> <cstdint> <deque> <filesystem> <functional>
    <map> <memory> <mutex> <optional> <set> <span> <sstream> <stop_token> <string> <string_view>
    <thread> <utility> <variant> <vector>)

file(WRITE ${CMAKE_BINARY_DIR}/empty.cc "")

add_library(pch OBJECT ${CMAKE_BINARY_DIR}/empty.cc)
target_compile_definitions(pch PRIVATE JSON_USE_IMPLICIT_CONVERSIONS=0)
target_compile_options(pch PRIVATE -Wpedantic)  # it hides macros of the GNU dialect
target_precompile_headers(pch PRIVATE ${YARD_STD_HEADERS} <nlohmann/json.hpp>)

add_library(pch_shareable OBJECT ${CMAKE_BINARY_DIR}/empty.cc)
make_shareable(pch_shareable)
target_compile_definitions(pch_shareable PRIVATE JSON_USE_IMPLICIT_CONVERSIONS=0)
target_compile_options(pch_shareable PRIVATE -Wpedantic)
target_precompile_headers(pch_shareable PRIVATE ${YARD_STD_HEADERS} <nlohmann/json.hpp>)

if(BUILD_TESTING)
  add_library(pch_test OBJECT ${CMAKE_BINARY_DIR}/empty.cc)
  target_compile_definitions(pch_test PRIVATE JSON_USE_IMPLICIT_CONVERSIONS=0)
  target_compile_options(pch_test PRIVATE ${YARD_TEST_OPTIONS})
  target_link_libraries(pch_test PRIVATE GTest::gmock)
  target_precompile_headers(pch_test PRIVATE ${YARD_STD_HEADERS} <nlohmann/json.hpp> <gmock/gmock.h>
                                             <gtest/gtest.h>)
endif()
