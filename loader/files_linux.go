//go:build !pureverbs_native

package loader

import (
	"errors"
	"os"
	"strings"

	"github.com/pureverbs/pureverbs/internal/secure"
	"github.com/pureverbs/pureverbs/internal/solib"
)

// usable checks the file before the linker loads it. ok reports whether the linker may be asked.
// bad lists files that cannot be loaded, which explain it if the linker finds none. path is a file,
// or a soname for the linker to find.
func usable(path string) (bad []Try, ok bool) {
	if strings.Contains(path, "/") {
		if err := solib.Check(path); err != nil {
			return []Try{tryOf(err)}, false
		}
		return nil, true
	}
	if len(mapped(Name(path))) > 0 {
		return nil, true // it is already loaded, and the linker uses that copy
	}
	libraryPath := os.Getenv("LD_LIBRARY_PATH")
	if secure.Mode() {
		libraryPath = ""
	}
	cache, _ := solib.ReadFile("/etc/ld.so.cache") // absent with other C libraries
	for _, file := range solib.Candidates(path, libraryPath, cache) {
		err := solib.Check(file)
		if err == nil {
			return bad, true
		}
		bad = append(bad, tryOf(err))
		var fe *solib.FileError
		if errors.As(err, &fe) && fe.Fatal {
			return bad, false
		}
	}
	return bad, true
}

// tryOf returns the Try for an error of solib.Check.
func tryOf(err error) Try {
	var fe *solib.FileError
	if !errors.As(err, &fe) {
		return Try{Reason: err.Error()}
	}
	if fe.Absent {
		return Try{fe.Path, noFile}
	}
	return Try{fe.Path, fe.Problem}
}

func sameFile(a, b string) bool {
	sa, err1 := os.Stat(a)
	sb, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(sa, sb)
}

// soleInstance returns an *InstanceError if two copies of a library are loaded.
func soleInstance(name Name) error {
	if files := mapped(name); len(files) > 1 {
		return &InstanceError{Name: name, Loaded: files}
	}
	return nil
}

// mapped returns the copies of a library that the process has loaded.
func mapped(name Name) []string {
	b, err := solib.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	return mappedIn(name, string(b))
}
