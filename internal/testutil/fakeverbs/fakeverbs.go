// Package fakeverbs builds fake libraries, such as the libibverbs in ibv/testdata/fakeverbs, which let tests run
// without a device.
package fakeverbs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/testutil/native"
	"github.com/pureverbs/pureverbs/loader"
)

// Env returns the environment variables of a program that uses the libraries in dir, whatever control path the
// environment selects.
func Env(dir string) []string {
	return []string{loader.PathEnv + "=" + dir, native.Env + "=library"}
}

// Use sets these variables for this process.
func Use(dir string) (err error) {
	for _, v := range Env(dir) {
		name, value, _ := strings.Cut(v, "=")
		err = errors.Join(err, os.Setenv(name, value))
	}
	return err
}

// ErrNoCompiler is returned when the host has no C compiler. Tests then skip.
var ErrNoCompiler = errors.New("no C compiler: make setup installs gcc; or set CC")

// Build compiles the library in the folder source, with the given macros (such as "OLD=15"), to dir/libibverbs.so.1,
// and returns the path of that file.
func Build(dir, source string, macros ...string) (string, error) {
	lib := filepath.Join(dir, "libibverbs.so.1")
	return lib, build(lib, filepath.Join(source, "fakeverbs.c"), macros, "-pthread")
}

// BuildEFA compiles the fake libefa in the folder source, which calls the fake libibverbs in dir, to dir/libefa.so.1.
func BuildEFA(dir, source string, macros ...string) error {
	return build(filepath.Join(dir, "libefa.so.1"), filepath.Join(source, "fakeefa.c"), macros,
		filepath.Join(dir, "libibverbs.so.1"))
}

// BuildMLX5 compiles the fake libmlx5 in the folder source to dir/libmlx5.so.1.
func BuildMLX5(dir, source string, macros ...string) error {
	return build(filepath.Join(dir, "libmlx5.so.1"), filepath.Join(source, "fakemlx5.c"), macros)
}

// BuildOver compiles the C file source to lib, which also has the functions of the library in the file real.
func BuildOver(lib, source, real string, macros ...string) error {
	cc, err := compiler()
	if err != nil {
		return err
	}
	// Linked with a library whose soname is a path, lib needs the file of that path, although its own name may be that
	// of the file.
	stub := lib + ".stub"
	defer os.Remove(stub)
	args := append(cc[1:], "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
	over := append(slices.Clone(args), "-o", lib, source, "-Wl,--no-as-needed", stub)
	for _, m := range macros {
		over = append(over, "-D"+m)
	}
	for _, args := range [][]string{append(args, "-o", stub, "-Wl,-soname,"+real, "-x", "c", os.DevNull), over} {
		if out, err := exec.Command(cc[0], args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w\n%s", cc[0], strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// build compiles source to lib. A library that was compiled before, from the same sources by the same compiler, is
// copied: test packages, their processes and the tiers share it.
func build(lib, source string, macros []string, more ...string) error {
	cc, err := compiler()
	if err != nil {
		return err
	}
	args := append(cc[1:], "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
		"-Wl,-soname,"+filepath.Base(lib))
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	cached, err := cache(cc[0], args, filepath.Dir(source), more)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(cached)
	if err == nil {
		return os.WriteFile(lib, b, 0o755)
	}
	out, err := exec.Command(cc[0], append(append(args, "-o", lib, source), more...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cc, " "), err, out)
	}
	keep(lib, cached)
	return nil
}

// cache returns the name of the file in which the library is kept, which depends on all that it is made of.
func cache(cc string, args []string, folder string, more []string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", nil // nothing is kept
	}
	sum := sha256.New()
	fmt.Fprintln(sum, cc, args)
	if info, err := os.Stat(cc); err == nil {
		fmt.Fprintln(sum, info.Size(), info.ModTime())
	}
	add := func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(filepath.Base(name), ".") {
			return err // a folder, or no file of a library
		}
		b, err := os.ReadFile(name)
		fmt.Fprintln(sum, filepath.Base(name), len(b))
		_, _ = sum.Write(b)
		return err
	}
	if err := filepath.WalkDir(folder, add); err != nil {
		return "", err
	}
	for _, name := range more {
		if !strings.HasPrefix(name, "-") {
			if err := add(name, nil, nil); err != nil {
				return "", err
			}
		}
	}
	return filepath.Join(dir, "pureverbs-fakes", fmt.Sprintf("%x.so", sum.Sum(nil))), nil
}

// keep puts a copy of lib in the cache. If it cannot, lib is compiled again the next time.
func keep(lib, cached string) {
	b, err := os.ReadFile(lib)
	if err != nil || cached == "" || os.MkdirAll(filepath.Dir(cached), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(cached), "new")
	if err != nil {
		return
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), cached)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

func compiler() ([]string, error) {
	if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
		if p, err := exec.LookPath(cc[0]); err == nil {
			cc[0] = p
		}
		return cc, nil
	}
	for _, name := range []string{"cc", "gcc", "clang"} {
		if p, err := exec.LookPath(name); err == nil {
			return []string{p}, nil
		}
	}
	return nil, ErrNoCompiler
}
