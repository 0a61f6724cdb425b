# moiety_add_plugin(NAME sources... [TEST test sources...] [FOLDER folder])
# Builds NAME.moiety.so in lib/moiety of the build tree (or FOLDER there), with one exported symbol, and its unit test: the plugin's own
# objects with the test's, so that the test sees the plugin as the loader does, through its descriptor (moiety_testing/testing.h).
set(MOIETY_PLUGIN_SYMBOLS ${CMAKE_CURRENT_LIST_DIR}/plugin.symbols)

function(moiety_add_plugin name)
  cmake_parse_arguments(arg "" "FOLDER" "TEST" ${ARGN})
  if(NOT arg_FOLDER)
    set(arg_FOLDER moiety)
  endif()
  add_library(${name}_objects OBJECT ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name}_objects PUBLIC moiety_sdk moiety_torch)
  set_target_properties(${name}_objects PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  # Many plugins in one tree parse LibTorch's headers once.
  if(TARGET moiety_plugin_headers)
    target_precompile_headers(${name}_objects REUSE_FROM moiety_plugin_headers)
  endif()

  add_library(${name} MODULE $<TARGET_OBJECTS:${name}_objects>)
  target_link_libraries(${name} PRIVATE moiety_torch)
  # Names that cannot be found are an error when the plugin is built, not when a run opens it.
  target_link_options(${name} PRIVATE -Wl,--no-undefined -Wl,-z,now -Wl,--version-script=${MOIETY_PLUGIN_SYMBOLS})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX .moiety.so LINKER_LANGUAGE CXX
    LINK_DEPENDS ${MOIETY_PLUGIN_SYMBOLS} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/${arg_FOLDER})

  # Whoever needs all plugins built depends on this one target.
  if(arg_FOLDER STREQUAL moiety)
    if(NOT TARGET moiety_plugins)
      add_custom_target(moiety_plugins ALL)
    endif()
    add_dependencies(moiety_plugins ${name})
  endif()

  if(arg_TEST AND BUILD_TESTING)
    moiety_add_test(${name}_test ${arg_TEST} $<TARGET_OBJECTS:${name}_objects> LINK moiety_sdk_testing)
    if(TARGET moiety_plugin_test_headers)
      target_precompile_headers(${name}_test REUSE_FROM moiety_plugin_test_headers)
    endif()
  endif()
endfunction()

# Headers compiled once for all plugins that are added after this, and for their tests.
function(moiety_precompile_plugin_headers)
  set(empty ${CMAKE_CURRENT_BINARY_DIR}/plugin_headers.cpp)
  file(GENERATE OUTPUT ${empty} CONTENT "int main() { return 0; }\n")
  add_library(moiety_plugin_headers OBJECT ${empty})
  target_link_libraries(moiety_plugin_headers PUBLIC moiety_sdk moiety_torch)
  set_target_properties(moiety_plugin_headers PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_precompile_headers(moiety_plugin_headers PRIVATE <ATen/ATen.h>)
  if(BUILD_TESTING)
    add_executable(moiety_plugin_test_headers ${empty})
    target_link_libraries(moiety_plugin_test_headers PRIVATE moiety_sdk_testing GTest::gtest_main GTest::gmock)
    target_compile_options(moiety_plugin_test_headers PRIVATE -O1)
    target_precompile_headers(moiety_plugin_test_headers PRIVATE <ATen/ATen.h> <gtest/gtest.h>)
  endif()
endfunction()
