// Package solib examines files of shared libraries without loading them: whether the dynamic linker
// can load one, and which file it would load for a soname. The linker itself reports "no such file"
// for a library of another architecture, and dies of SIGBUS when it loads one that is cut off.
package solib

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// FileError reports a file that cannot be loaded as a shared library.
type FileError struct {
	Path    string
	Problem string // "is cut off: …"
	// Fatal is set if loading the file would end the process or hang.
	Fatal bool
	// Absent is set if the file does not exist.
	Absent bool
}

func (e *FileError) Error() string { return e.Path + ": " + e.Problem }

// Constants of the ELF format (elf.h).
const (
	headerSize = 64 // Elf64_Ehdr
	progSize   = 56 // Elf64_Phdr
	class64    = 2
	dataLittle = 1
	dataBig    = 2
	typeShared = 3
	segLoad    = 1
)

// machines maps the 64-bit architectures of Linux to their e_machine.
var machines = map[string]uint16{"amd64": 62, "arm64": 183, "riscv64": 243, "loong64": 258, "ppc64": 21,
	"ppc64le": 21, "s390x": 22}

// Check returns why a file cannot be loaded into this program, nil if no reason is found. The error
// is a *FileError. Check reads only the headers.
func Check(path string) error {
	fail := func(format string, args ...any) error {
		return &FileError{Path: path, Problem: fmt.Sprintf(format, args...)}
	}
	fatal := func(format string, args ...any) error {
		return &FileError{Path: path, Problem: fmt.Sprintf(format, args...), Fatal: true}
	}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &FileError{Path: path, Problem: "no such file", Absent: true}
	} else if err != nil {
		return fail("%v", cause(err))
	}
	switch {
	case st.IsDir():
		return fail("is a directory")
	case !st.Mode().IsRegular():
		// The linker would wait for the other end of a FIFO.
		return fatal("is not a regular file (%v)", st.Mode().Type())
	case st.Size() == 0:
		return fail("is empty")
	}
	f, err := open(path)
	if err != nil {
		return fail("%v", cause(err))
	}
	defer f.Close()

	head := make([]byte, headerSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return fail("%v", cause(err))
	}
	if string(head[:min(n, 4)]) != "\x7fELF" {
		return fail("is not an ELF file: it begins with %q", head[:min(n, 8)])
	}
	if n < headerSize {
		return fatal("is cut off: it has %d bytes, the header of a library has %d", n, headerSize)
	}
	var order binary.ByteOrder
	switch head[5] {
	case dataLittle:
		order = binary.LittleEndian
	case dataBig:
		order = binary.BigEndian
	default:
		return fail("is not an ELF file that this program knows (byte order %d)", head[5])
	}
	kind, machine := order.Uint16(head[16:]), order.Uint16(head[18:])
	switch {
	case head[4] != class64:
		return fail("is for %s; this program is for %s", bits(head[4], machine), runtime.GOARCH)
	case machine != machines[runtime.GOARCH] || (order == binary.ByteOrder(binary.BigEndian)) != bigEndian():
		return fail("is for %s; this program is for %s", archName(machine), runtime.GOARCH)
	case kind != typeShared:
		return fail("is not a shared library (ELF type %d)", kind)
	}

	off, count := order.Uint64(head[32:]), uint64(order.Uint16(head[56:]))
	if size := order.Uint16(head[54:]); size != progSize || count == 0 {
		return fail("is damaged: %d program headers of %d bytes", count, size)
	}
	size := uint64(st.Size())
	if off > size || count*progSize > size-off {
		return fatal("is cut off: %d bytes, its program headers end at %d", size, off+count*progSize)
	}
	progs := make([]byte, count*progSize)
	if _, err := f.ReadAt(progs, int64(off)); err != nil {
		return fatal("is cut off: %v", cause(err))
	}
	for ; len(progs) > 0; progs = progs[progSize:] {
		if order.Uint32(progs) != segLoad {
			continue
		}
		start, length := order.Uint64(progs[8:]), order.Uint64(progs[32:])
		if start > size || length > size-start {
			return fatal("is cut off: %d bytes, its segments end at %d", size, start+length)
		}
	}
	return nil
}

// cause returns err without its path, which the caller's message has.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func bigEndian() bool { return binary.NativeEndian.Uint16([]byte{0, 1}) == 1 }

func archName(machine uint16) string {
	if machine == machines["ppc64"] {
		return "ppc64 or ppc64le"
	}
	for name, m := range machines {
		if m == machine {
			return name
		}
	}
	switch machine {
	case 3:
		return "386"
	case 40:
		return "arm"
	}
	return fmt.Sprintf("machine %d", machine)
}

func bits(class byte, machine uint16) string {
	if class == 1 {
		return "32 bits (" + archName(machine) + ")"
	}
	return fmt.Sprintf("ELF class %d", class)
}
