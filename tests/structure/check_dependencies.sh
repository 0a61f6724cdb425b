#!/bin/sh
# The dependency rule, on the output of `ninja -t deps` (standard input): one line for each violation, exit 1 when there is one.
#   registry/, kernel/base/, kernel/host/, kernel/data/   nothing of LibTorch
#   plugins/                                              nothing of kernel/engine, kernel/host, kernel/data, registry
#   everything else                                       nothing of plugins/
exec awk '
  /^[^ ].*: #deps/ { object = $1; sub(/:$/, "", object); objects++; next }
  /^ / {
    header = $1; headers++
    torch = header ~ /(^|\/)(torch|ATen|c10|caffe2)\//
    if (object ~ /^(registry|kernel\/base|kernel\/host|kernel\/data)\// && torch) bad(header, "must not depend on LibTorch")
    if (object ~ /^plugins\// && header ~ /(^|\/)(kernel\/(engine|host|data)|registry)\/[^ ]*\.h$/) bad(header, "a plugin depends on the SDK and LibTorch alone")
    if (object !~ /^plugins\// && header ~ /(^|\/)plugins\/(routers|expert_constructors|clusterers|samplers|mixing_schedulers|probes)\//) bad(header, "nothing depends on a plugin")
    if (object ~ /^(registry|kernel\/base)\// && header ~ /(^|\/)kernel\/(host|data|engine|sdk)\//) bad(header, "the lower layers know nothing of the upper ones")
    if (object ~ /^kernel\/(host|data)\// && header ~ /(^|\/)kernel\/engine\//) bad(header, "host and data talk to the worker, they do not include it")
  }
  function bad(h, why) { print object ": " h ": " why; violations++ }
  END {
    if (objects < 1 || headers < 1) { print "no dependencies on standard input"; exit 1 }
    print objects " objects, " headers " dependencies, " violations + 0 " violations"
    exit violations > 0
  }'
