// Package buildinfo returns the version of the program that it is part of.
package buildinfo

import "runtime/debug"

// Version returns the version of the main module, "(devel)" where it has none.
func Version() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "(devel)"
}
