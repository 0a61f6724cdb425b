# Compiler and linker settings shared by every target of this tree, and moiety_add_test().

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(MOIETY_CCACHE ccache)
if(MOIETY_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MOIETY_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${MOIETY_CCACHE})
endif()
find_program(MOIETY_MOLD mold)
if(MOIETY_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror)
# Builds are reproducible: the same sources give the same bytes wherever the checkout lies.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=build)
# mold's default is sha1 over the output, stated here so that every linker writes one.
add_link_options(-Wl,--build-id=sha1)

set(MOIETY_SANITIZE "" CACHE STRING "address, undefined or thread")
if(MOIETY_SANITIZE)
  add_compile_options(-fsanitize=${MOIETY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MOIETY_SANITIZE})
endif()

# moiety_add_test(NAME sources... LINK libraries... [SLOW])
# One GoogleTest program. Tests of a SLOW program carry the label `slow`: `./test` leaves them out, `./test --all` runs them.
function(moiety_add_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(arg "SLOW" "" "LINK" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gtest_main GTest::gmock)
  target_compile_options(${name} PRIVATE -O1)  # of the tests' own code, which compiles in half the time
  set(labels "")
  if(arg_SLOW)
    set(labels LABELS slow)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 600 ${labels} ENVIRONMENT "OMP_NUM_THREADS=1;OPENBLAS_NUM_THREADS=1;OMP_WAIT_POLICY=passive")
endfunction()
