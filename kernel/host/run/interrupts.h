// SIGINT and SIGTERM as something that a loop can poll. Until `install` has been called both keep their default: the process
// ends.
#ifndef MOIETY_KERNEL_HOST_RUN_INTERRUPTS_H_
#define MOIETY_KERNEL_HOST_RUN_INTERRUPTS_H_

namespace moiety::host {

class Interrupts {
 public:
  /// From now on SIGINT and SIGTERM are recorded, SIGCHLD wakes `poll` on `descriptor()`, and SIGPIPE is ignored: a reader that
  /// closes our stdout (`moiety run … | head`) does not end a run.
  static void install();
  /// -1 before `install` (poll ignores it). Readable after a signal.
  static int descriptor();
  /// The first SIGINT or SIGTERM that came, or 0.
  static int pending();
  /// How many of them came: a second one means "now".
  static int count();
  /// Empties the descriptor.
  static void drain();
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_INTERRUPTS_H_
