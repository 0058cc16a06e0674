// Package fakeverbs builds the fake libibverbs in ibv/testdata/fakeverbs, which lets tests run without a device.
package fakeverbs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoCompiler is returned when the host has no C compiler. Tests then skip.
var ErrNoCompiler = errors.New("no C compiler: set CC, or install gcc")

// Build compiles the library in the folder source, with the given macros (such as "OLD=15"), to dir/libibverbs.so.1,
// and returns the path of that file.
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

// BuildEFA compiles the fake libefa in the folder source, which calls the fake libibverbs in dir, to dir/libefa.so.1.
func BuildEFA(dir, source string, macros ...string) error {
	cc, err := compiler()
	if err != nil {
		return err
	}
	args := append(cc[1:], "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
		"-Wl,-soname,libefa.so.1", "-o", filepath.Join(dir, "libefa.so.1"))
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	args = append(args, filepath.Join(source, "fakeefa.c"), filepath.Join(dir, "libibverbs.so.1"))
	if out, err := exec.Command(cc[0], args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cc, " "), err, out)
	}
	return nil
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
