# Compiler-wide settings: default build type, ccache, the faster linker, sanitizers.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Assertions of the standard library stay off; our own YARD_CHECK is never compiled out.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")

# What the tests themselves say is not worth optimizing: without it they compile in two thirds of the time.
set(YARD_TEST_OPTIONS $<$<CONFIG:Release>:-O0>)

# GCC 12 sees overruns in std::string's operator+ that are not there (its bug 105651); whether it does depends on what it inlines.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
endif()

find_program(YARD_CCACHE ccache)
if(YARD_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${YARD_CCACHE})
  add_compile_options(-fpch-preprocess)  # lets ccache see what a precompiled header stands for
endif()
find_program(YARD_MOLD mold)
if(YARD_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(YARD_SANITIZE)
  add_compile_options(-fsanitize=${YARD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${YARD_SANITIZE})
endif()
if(YARD_SANITIZE MATCHES "undefined")
  # It looks at an object's type through a pipe, and takes objects for broken where a test leaves no descriptor.
  add_compile_options(-fno-sanitize=vptr)
endif()
if(YARD_SANITIZE MATCHES "thread")
  # Asio's fences are invisible to ThreadSanitizer.
  add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
