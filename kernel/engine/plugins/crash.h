// The last words of a worker that crashes: one protocol line that names the signal and the component in flight.
#ifndef MOIETY_KERNEL_ENGINE_PLUGINS_CRASH_H_
#define MOIETY_KERNEL_ENGINE_PLUGINS_CRASH_H_

namespace moiety::engine {

/// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and SIGTRAP write
///   {"crash":{"signal":11,"component":"router/x@1","function":"route"}}
/// to `fd` (without component and function when none is in flight) and then end the process by that signal. Runs on a stack of
/// its own, so that an endless recursion is told as well. Call it once, from the main thread, before a plugin is opened.
void install_crash_handler(int fd);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_PLUGINS_CRASH_H_
