// Package fakeverbs builds the fake libibverbs of ibv/testdata/fakeverbs, by
// which tests run without a device.
package fakeverbs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoCompiler is a host without a C compiler: tests skip.
var ErrNoCompiler = errors.New("no C compiler: set CC, or install gcc")

// Build compiles the library from the folder source, with the given macros
// ("OLD=15"), into dir, as libibverbs.so.1. It returns its path.
func Build(dir, source string, macros ...string) (string, error) {
	cc, err := compiler()
	if err != nil {
		return "", err
	}
	lib := filepath.Join(dir, "libibverbs.so.1")
	args := []string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread",
		"-Wl,-soname,libibverbs.so.1", "-o", lib}
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	args = append(args, filepath.Join(source, "fakeverbs.c"))
	out, err := exec.Command(cc[0], append(cc[1:], args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cc, " "), err, out)
	}
	return lib, nil
}

func compiler() ([]string, error) {
	if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
		return cc, nil
	}
	for _, name := range []string{"cc", "gcc", "clang"} {
		if p, err := exec.LookPath(name); err == nil {
			return []string{p}, nil
		}
	}
	return nil, ErrNoCompiler
}
