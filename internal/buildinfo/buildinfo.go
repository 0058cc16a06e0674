// Package buildinfo returns the version of the program that it is part of.
package buildinfo

import (
	"runtime/debug"
	"strings"
)

// Version returns the version of the main module, "(devel)" where it has none.
func Version() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "(devel)"
}

// Full returns the version and the commit, where the program has one. Versions between releases have it in them.
func Full() string {
	v := Version()
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && !strings.Contains(v, s.Value[:12]) {
			v += ", commit " + s.Value[:12]
		}
	}
	return v
}
