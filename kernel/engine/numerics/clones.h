// One source, compiled for several instruction sets; the loader takes the best one that the machine has.
#ifndef MOIETY_KERNEL_ENGINE_NUMERICS_CLONES_H_
#define MOIETY_KERNEL_ENGINE_NUMERICS_CLONES_H_

// Sanitizers run before the loader's choice can be made.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MOIETY_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MOIETY_CLONES
#endif

#define MOIETY_INLINE inline __attribute__((always_inline))

#endif  // MOIETY_KERNEL_ENGINE_NUMERICS_CLONES_H_
