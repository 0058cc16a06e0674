package command

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

var perftestProgram = regexp.MustCompile(`^(?:ib_(write|read|send|atomic)|raw_ethernet)_(bw|lat)$`)

// perftestWords returns the words of the test that one of perftest's programs runs, or nil if the path of this program
// does not end with such a name. So scripts of perftest run with links to rdmaperf.
func perftestWords(path string) []string {
	m := perftestProgram.FindStringSubmatch(filepath.Base(path))
	switch {
	case m == nil:
		return nil
	case m[1] == "":
		return []string{"send", m[2], "-c", "RawEth"}
	}
	return m[1:]
}

// perftestHelp returns the line of one of perftest's programs that scripts look for in its help: the connection types.
func perftestHelp(path string) string {
	words := perftestWords(path)
	if len(words) != 2 {
		return ""
	}
	var types []string
	for _, name := range []string{"RC", "XRC", "UC", "UD", "DC", "SRD"} {
		var o options
		if f := flagSet(&o); f.Parse([]string{"-c", name}) == nil && o.finish(f, words) == nil {
			types = append(types, name)
		}
	}
	return fmt.Sprintf("%s is rdmaperf %s. The line of perftest's help that scripts look for:\n"+
		"  -c, --connection=<%s>\n\n", filepath.Base(path), strings.Join(words, " "), strings.Join(types, "/"))
}
