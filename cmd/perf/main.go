// Perf is [github.com/pureverbs/pureverbs/cmd/perf/rdmaperf] under the name of its folder.
package main

import "github.com/pureverbs/pureverbs/cmd/perf/internal/command"

func main() { command.Main() }
