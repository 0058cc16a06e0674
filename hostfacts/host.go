package hostfacts

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Host says where the facts of a host are read. The zero Host is the host of this process: /sys and /proc. A Host is a
// value, and safe for concurrent use.
type Host struct {
	Sys  string // where sysfs is mounted, or a copy of it; empty: /sys
	Proc string // where procfs is mounted, or a copy of it; empty: /proc

	// OtherNamespace says that Sys shows another network namespace than that of this process. Which addresses the
	// interfaces there have is not known then, and GIDs are judged without.
	OtherNamespace bool
}

// This returns the host of this process. SYSFS_PATH names another /sys, as it does for libibverbs; setuid programs and
// those with file capabilities ignore it.
func This() Host { return Host{Sys: string(sysfs.DefaultRoot())} }

// At returns the host whose /sys and /proc are below a directory, as in a container that mounts the host's file systems
// below /host. Its network namespace is taken for another than that of this process.
func At(dir string) Host {
	return Host{Sys: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"),
		OtherNamespace: filepath.Clean(dir) != "/"}
}

// SysPath returns the path of a file of sysfs, for messages.
func (h Host) SysPath(elem ...string) string {
	return strings.TrimSuffix(h.sys().String(), "/") + "/" + strings.Join(elem, "/")
}

// ProcPath returns the path of a file of procfs, for messages.
func (h Host) ProcPath(elem ...string) string {
	return strings.TrimSuffix(cmp.Or(h.Proc, "/proc"), "/") + "/" + strings.Join(elem, "/")
}

func (h Host) sys() sysfs.Root { return sysfs.Root(h.Sys) }

// maxProc bounds a file of procfs.
const maxProc = 1 << 20

// proc reads a file of procfs.
func (h Host) proc(elem ...string) (string, error) {
	path := h.ProcPath(elem...)
	st, err := os.Stat(path) // opening a FIFO would block
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProc+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxProc {
		return "", &fs.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	}
	return string(b), nil
}

// Why a file is not read although it exists. Errors and [Missing] wrap them.
var (
	ErrTooLarge   = sysfs.ErrTooLarge   // more than 4096 bytes of sysfs, or 1 MiB of procfs
	ErrNotRegular = sysfs.ErrNotRegular // a directory, a FIFO, a device
)

// A ValueError is a file that does not have the kernel's form.
type ValueError struct {
	Path string
	Text string // what the file has, at most 64 bytes of it
	Want string // the form
}

// Error returns one line.
func (e *ValueError) Error() string {
	return e.Path + " " + (&sysfs.ValueError{Text: e.Text, Want: e.Want}).Error()
}

// Missing is a value that is not known because its file could not be read, or does not have the kernel's form. What a
// kernel, a driver or a device does not have is not missing.
type Missing struct {
	Path   string `json:"path"`
	Reason string `json:"reason"` // of Err, for JSON
	Err    error  `json:"-"`      // a *ValueError or a *fs.PathError
}

// missing converts errors of sysfs.
func missing(list []*fs.PathError) []Missing {
	var out []Missing
	for _, e := range list {
		out = append(out, miss(e.Path, e))
	}
	return out
}

// miss returns the Missing of an error that reading a file returned.
func miss(path string, err error) Missing {
	var bad *sysfs.ValueError
	if errors.As(err, &bad) {
		err = &ValueError{Path: path, Text: bad.Text, Want: bad.Want}
	}
	return Missing{Path: path, Reason: err.Error(), Err: err}
}

// malformed returns the Missing of a file that does not have the kernel's form.
func malformed(path, text, want string) Missing {
	err := &ValueError{Path: path, Text: text[:min(len(text), 64)], Want: want}
	return Missing{Path: path, Reason: err.Error(), Err: err}
}

// absent reports whether an error says that the kernel or the driver does not have a file.
func absent(err error) bool { return sysfs.Absent(err) }
