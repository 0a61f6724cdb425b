// The build tag: `key=value` lines that say how a library was compiled. Two tags must agree before one is loaded into the other.
#ifndef MOIETY_BUILD_TAG_H_
#define MOIETY_BUILD_TAG_H_

#include "moiety/build_config.h"  // written by the build: MOIETY_SDK_HASH, MOIETY_TORCH_PACKAGE, MOIETY_TORCH_BUILD_ID

#define MOIETY_TEXT_OF(x) #x
#define MOIETY_TEXT(x) MOIETY_TEXT_OF(x)

#if defined(__clang__)
#define MOIETY_COMPILER "clang"
#else
#define MOIETY_COMPILER "g++ " MOIETY_TEXT(__GNUC__)
#endif

#if defined(__SANITIZE_ADDRESS__)
#define MOIETY_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define MOIETY_SANITIZER "thread"
#else
#define MOIETY_SANITIZER "none"
#endif

#define MOIETY_BUILD_TAG \
  "compiler=" MOIETY_COMPILER "\n"                                  \
  "standard=" MOIETY_TEXT(__cplusplus) "\n"                         \
  "cxx11_abi=" MOIETY_TEXT(_GLIBCXX_USE_CXX11_ABI) "\n"             \
  "sanitizer=" MOIETY_SANITIZER "\n"                                \
  "libtorch=" MOIETY_TORCH_PACKAGE "\n"                             \
  "libtorch_build_id=" MOIETY_TORCH_BUILD_ID "\n"                   \
  "sdk=" MOIETY_SDK_HASH "\n"

#endif  // MOIETY_BUILD_TAG_H_
