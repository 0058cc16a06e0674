// Rdmaperf measures bandwidth and latency between two ends, as perftest does, and
// talks to perftest's programs as well as to itself.
package main

import "github.com/pureverbs/pureverbs/cmd/perf/internal/command"

func main() { command.Main() }
