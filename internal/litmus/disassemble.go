package litmus

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Instruction is a line of `go tool objdump`.
type Instruction struct {
	File string // and line
	Addr uint64
	Text string
}

// Code has the functions of a binary by their names without the module's path: "mlx5.(*SQ).Ring", "mmio.RingSend.abi0".
type Code map[string][]Instruction

// Disassemble builds the test binary of a package for an architecture, in a folder of its own, and returns the
// functions that match a pattern.
func Disassemble(ctx context.Context, dir, arch, pkg, pattern string) (Code, error) {
	run := func(args ...string) ([]byte, error) {
		c := exec.CommandContext(ctx, "go", args...)
		c.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		var stderr bytes.Buffer
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
		}
		return out, nil
	}
	binary := filepath.Join(dir, arch+".test") // with its symbols
	if _, err := run("test", "-c", "-vet=off", "-buildvcs=false", "-ldflags=", "-o", binary, pkg); err != nil {
		return nil, err
	}
	out, err := run("tool", "objdump", "-s", pattern, binary)
	if err != nil {
		return nil, err
	}
	code := Code{}
	var name string
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "TEXT "); ok {
			name = short(rest)
			continue
		}
		f := strings.FieldsFunc(s.Text(), func(r rune) bool { return r == '\t' }) // file and line, address, bytes, text
		if len(f) < 4 {
			continue
		}
		addr, err := strconv.ParseUint(f[1], 0, 64)
		if err != nil {
			return nil, fmt.Errorf("objdump: %q: %w", s.Text(), err)
		}
		code[name] = append(code[name], Instruction{strings.TrimSpace(f[0]), addr, strings.TrimSpace(f[3])})
	}
	if len(code) == 0 {
		return nil, fmt.Errorf("the binary for %s has no function that matches %s", arch, pattern)
	}
	return code, nil
}

// short returns the name of the function at the start of a line, which ends with "(SB)", without the path.
func short(line string) string {
	name, _, _ := strings.Cut(line, "(SB)")
	return name[strings.LastIndexByte(name, '/')+1:]
}
