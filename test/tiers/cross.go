package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// full reports whether the VM's tests run in each row. On the other architecture they do not: what differs there is the
// code of calls, barriers and layouts, and the kernel's, which the rows share.
func (r *runner) full() bool { return os.Getenv(fullEnv) != "" && r.arch == "" }

// processor lists the packages that the VM of another architecture tests as a whole, without a device: what they do
// depends on the processor, and on how the kernel delivers its signals.
var processor = []string{"internal/ccall", "internal/ops"}

// processorDirs returns those of them that this run tests.
func (r *runner) processorDirs() ([]string, error) {
	if r.arch == "" || r.figures || r.ratios {
		return nil, nil
	}
	dirs, err := packagesWith(r.root, "Test", r.pkg)
	return slices.DeleteFunc(dirs, func(d string) bool { return !slices.Contains(processor, d) }), err
}

// rxeTier is the name of the tier, which says what the VM emulates.
func (r *runner) rxeTier() string {
	switch {
	case r.siw:
		return "siw"
	case r.arch != "":
		return "rxe-" + r.arch
	}
	return "rxe"
}

// iwarp is tier rxe with siw's devices in place of SoftRoCE's: it has the tests for these.
func (r *runner) iwarp(ctx context.Context) ([]Result, error) {
	other := *r
	other.siw = true
	return other.rxe(ctx)
}

// rxeARM64 is tier rxe on the other architecture, with Debian's kernel, libraries and programs for it.
func (r *runner) rxeARM64(ctx context.Context) ([]Result, error) {
	other := *r
	other.arch = "arm64"
	var err error
	if other.work, err = workFolder(r.root); err != nil {
		return nil, err
	}
	defer os.RemoveAll(other.work)
	return other.rxe(ctx)
}

// crossCC is the C compiler for that architecture.
const crossCC = "aarch64-linux-gnu-gcc"

// compile compiles the C libraries of the tests in processor, and makes a compiler for the guest, which has none, that
// knows only these.
func (r *runner) compile(ctx context.Context, payload string) error {
	lib := filepath.Join(payload, "lib")
	if err := os.Mkdir(lib, 0o755); err != nil {
		return err
	}
	for _, src := range []string{"internal/ccall/testdata/ccalltest.c", "ibv/testdata/fakeverbs/fakeverbs.c"} {
		so := filepath.Join(lib, strings.TrimSuffix(path.Base(src), ".c")+".so")
		if out, err := r.quietly(ctx, crossCC, "-std=gnu11", "-O2", "-shared", "-fPIC", "-pthread", "-o", so,
			src); err != nil {
			return fmt.Errorf("%s %s: %w\n%s", crossCC, src, err, out)
		}
	}
	// A test looks at the source before it compiles it.
	if to := filepath.Join(payload, "src", "ibv"); missing(to) {
		if err := copyTestdata(filepath.Join(r.root, "ibv"), to); err != nil {
			return err
		}
	}
	const cc = `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in
	-D*) echo "cc: $1: compiled beforehand without it" >&2; exit 1 ;;
	-o) to=$2; shift ;;
	*.c) from=${1##*/} ;;
	esac
	shift
done
cp "/payload/lib/${from%.c}.so" "$to"
`
	return os.WriteFile(filepath.Join(payload, "bin", "cc"), []byte(cc), 0o755)
}

func missing(name string) bool {
	_, err := os.Stat(name)
	return err != nil
}
