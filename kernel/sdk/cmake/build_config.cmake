# Writes OUTPUT (moiety/build_config.h) when its content changes. The hash is that of `sha256sum *.h` in FOLDER, sorted by name:
# cd FOLDER && LC_ALL=C sha256sum *.h | sha256sum
file(GLOB headers RELATIVE ${FOLDER} ${FOLDER}/*.h)
list(SORT headers)
set(list "")
foreach(header IN LISTS headers)
  file(SHA256 ${FOLDER}/${header} hash)
  string(APPEND list "${hash}  ${header}\n")
endforeach()
string(SHA256 sdk_hash "${list}")

set(text "// Written by the build.
#ifndef MOIETY_BUILD_CONFIG_H_
#define MOIETY_BUILD_CONFIG_H_

#define MOIETY_SDK_HASH \"${sdk_hash}\"
#define MOIETY_TORCH_PACKAGE \"${TORCH_PACKAGE}\"
#define MOIETY_TORCH_BUILD_ID \"${TORCH_BUILD_ID}\"

#endif  // MOIETY_BUILD_CONFIG_H_
")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
