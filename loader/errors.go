package loader

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/pureverbs/pureverbs/internal/secure"
)

// Sentinels, for errors.Is.
var (
	// ErrLibrary is returned when a library is missing or cannot be used.
	ErrLibrary = errors.New("rdma library is not usable")
	// ErrNotSupported is returned when the library or the operating system lacks a feature.
	ErrNotSupported = errors.ErrUnsupported
)

// Try is one attempt to open a library.
type Try struct {
	Path   string `json:"path"`   // a file, or a soname for the dynamic linker's own search
	Reason string `json:"reason"` // why it failed
}

// noFile is the Reason for a missing file. noSoname ends glibc's text for a library that its own search does not find.
const (
	noFile   = "no such file"
	noSoname = "cannot open shared object file: No such file or directory"
)

// LibraryError reports that a library could not be opened. It matches ErrLibrary and, outside
// Linux, ErrNotSupported.
type LibraryError struct {
	Name  Name
	Tried []Try // in order
	// Only is the setting that restricted the search, if any: "PUREVERBS_LIBRARY_PATH=/opt/lib".
	Only string
	// Ignored is the environment's list, if it is not followed because the program is setuid or has
	// file capabilities: "PUREVERBS_LIBRARY_PATH=/opt/lib".
	Ignored string
	// Hint is the way out if the library exists but is too old or too new.
	Hint    string
	Install []Package // what to install, this host's distribution first; empty if Hint is set
	command string    // installs that; empty if the distribution is not known
}

func (e *LibraryError) Error() string {
	if runtime.GOOS != "linux" {
		return fmt.Sprintf("cannot open %s: rdma verbs need Linux, this is %s", e.Name, runtime.GOOS)
	}
	var b strings.Builder
	if way := e.remedy(e.command); e.Hint == "" && way != "" {
		b.WriteString(way + ": ")
	}
	fmt.Fprintf(&b, "cannot open %s: ", e.Name)
	b.WriteString(strings.Join(e.reasons(), "; "))
	if e.Ignored != "" {
		fmt.Fprintf(&b, "; %s is ignored because %s", e.Ignored, secure.Why)
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	if e.Only != "" {
		fmt.Fprintf(&b, "; %s allows no other place: unset it to search the system", e.Only)
		return b.String()
	}
	if len(e.Install) > 0 && e.command == "" {
		b.WriteString("; install ")
		for i, p := range e.Install {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s (%s)", p.Packages, p.Distribution)
		}
	}
	return b.String()
}

// reasons returns why each attempt failed. Of missing files it names two.
func (e *LibraryError) reasons() []string {
	var absent, list []string
	for _, t := range e.Tried {
		switch {
		case t.Reason == noFile:
			absent = append(absent, t.Path)
		case len(e.Tried) > 1 && strings.HasSuffix(t.Reason, noSoname) && !strings.Contains(t.Path, "/"):
		default:
			list = append(list, t.Path+": "+t.Reason)
		}
	}
	if n := len(absent) - 2; n > 0 {
		absent = append(absent[:2], fmt.Sprintf("and %d other places", n))
	}
	if len(absent) > 0 {
		list = append(list, noFile+": "+strings.Join(absent, ", "))
	}
	return list
}

// remedy returns the way out, by the command that installs libraries.
func (e *LibraryError) remedy(install string) string {
	switch variable, _, ok := strings.Cut(e.Only, "="); {
	case ok:
		return "unset " + variable
	case e.Only != "":
		return ""
	case e.Hint != "":
		return e.Hint
	}
	for _, t := range e.Tried {
		if t.Reason != noFile && strings.Contains(t.Path, "/") {
			return strings.TrimSuffix("reinstall "+t.Path+": "+install, ": ") // it is there, and broken
		}
	}
	return install
}

// Is reports whether target is ErrLibrary or, outside Linux, ErrNotSupported.
func (e *LibraryError) Is(target error) bool {
	return target == ErrLibrary || target == ErrNotSupported && runtime.GOOS != "linux"
}

// InstanceError reports that the process has, or would get, two copies of a library. A copy of
// libmlx5 that is not libibverbs' driver does not recognise devices that the driver opened. It
// matches ErrLibrary.
type InstanceError struct {
	Name   Name
	Loaded []string // the loaded files
	Wanted string   // the file that SetPath or the environment asks for, if not a loaded one
}

func (e *InstanceError) Error() string {
	s := fmt.Sprintf("%s: %s loaded", e.Name, strings.Join(e.Loaded, " and "))
	if e.Wanted != "" {
		s += fmt.Sprintf(" as the driver, but %s was asked for", e.Wanted)
	} else {
		s += ": two copies, which do not know each other's devices"
	}
	return s + "; make the library path and libibverbs' driver folder refer to the same installation"
}

// Is reports whether target is ErrLibrary.
func (e *InstanceError) Is(target error) bool { return target == ErrLibrary }

// SymbolError reports a function that a library lacks. It matches ErrNotSupported.
type SymbolError struct {
	Symbol  string
	Library Name
	Path    string // the library's file
	Version string // package version of the library, as in "44.0"; may be empty
	Since   string // the rdma-core release that introduced the symbol, as in "v34"; may be empty
}

func (e *SymbolError) Error() string {
	s := fmt.Sprintf("%s has no %s", e.Library, e.Symbol)
	if e.Since != "" {
		s += fmt.Sprintf(", which rdma-core %s introduced", e.Since)
	}
	s += ": " + e.Path
	if e.Version != "" {
		s += " is version " + e.Version
	}
	return s
}

// Is reports whether target is ErrNotSupported.
func (e *SymbolError) Is(target error) bool { return target == ErrNotSupported }
