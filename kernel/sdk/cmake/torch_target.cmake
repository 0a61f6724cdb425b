# Target moiety_torch: headers and libraries of Debian's LibTorch (CPU), as a system include so that its warnings are not ours.
# MOIETY_TORCH_PACKAGE and MOIETY_TORCH_BUILD_ID say which one: the version macro of the headers is not reliable.

find_path(MOIETY_TORCH_INCLUDE ATen/ATen.h REQUIRED)
find_path(MOIETY_TORCH_API_INCLUDE torch/torch.h PATH_SUFFIXES torch/csrc/api/include REQUIRED)
find_library(MOIETY_TORCH_CPU torch_cpu REQUIRED)
find_library(MOIETY_TORCH_C10 c10 REQUIRED)

add_library(moiety_torch INTERFACE)
target_include_directories(moiety_torch SYSTEM INTERFACE ${MOIETY_TORCH_INCLUDE} ${MOIETY_TORCH_API_INCLUDE})
target_link_libraries(moiety_torch INTERFACE ${MOIETY_TORCH_CPU} ${MOIETY_TORCH_C10})

file(REAL_PATH ${MOIETY_TORCH_CPU} torch_file)
get_filename_component(torch_name ${torch_file} NAME)
string(REGEX REPLACE "^libtorch_cpu\\.so\\.?" "" MOIETY_TORCH_PACKAGE "${torch_name}")
if(NOT MOIETY_TORCH_PACKAGE)
  set(MOIETY_TORCH_PACKAGE unknown)
endif()
execute_process(COMMAND readelf -n ${torch_file} OUTPUT_VARIABLE torch_notes ERROR_QUIET)
if(torch_notes MATCHES "Build ID: ([0-9a-f]+)")
  set(MOIETY_TORCH_BUILD_ID ${CMAKE_MATCH_1})
else()
  set(MOIETY_TORCH_BUILD_ID unknown)
endif()
