//go:build linux

package sysfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is what a path leads to.
type Kind uint8

// The kinds. Missing is a path of the tree's where nothing is: RealPath gives the right errno.
const (
	Missing Kind = iota
	File
	Dir
	Uverbs
	RDMACM
	Umad
)

// Target is where a path leads. Native calls on RealPath answer as the path's own would, but those that follow to a
// device file.
type Target struct {
	RealPath string
	Kind     Kind
	Device   int  // of Uverbs and Umad
	Umad     int  // N of umadN
	Link     bool // of Uverbs, RDMACM and Umad: RealPath is a symbolic link to the device file, for lstat and readlink
	// Outside, if not "", is where the path leads in the machine's own files: whoever asks needs the right to see them.
	Outside string
	Own     bool // with Outside: RealPath is a link of the tree's that leads there
}

// Lookup returns where an absolute path leads, ok = false if it is not one of the tree's. Paths below neither /sys nor
// /dev cost nothing to speak of.
func (t *Tree) Lookup(path string) (target Target, ok bool) {
	if len(path) < 5 || path[0] != '/' {
		return Target{}, false
	}
	rest, mine := strings.CutPrefix(path, t.root)
	if mine && (strings.HasPrefix(rest, "/sys") || strings.HasPrefix(rest, "/dev")) {
		// From a folder of the tree that the program has open, or is in, ".." leads to the machine's.
		if target, ok = t.lookup(rest); !ok {
			path = t.clean(rest)
			if path == "" {
				path = "/"
			}
			var st unix.Stat_t
			return Target{RealPath: path, Outside: path, Kind: kind(&st, unix.Stat(path, &st))}, true
		}
		return target, ok
	} else if s := path[:5]; s != "/sys/" && s != "/dev/" && path[1] != '/' && path[1] != '.' &&
		!strings.Contains(path, "/../") {
		return Target{}, false
	}
	return t.lookup(path)
}

func (t *Tree) lookup(path string) (target Target, ok bool) {
	if strings.Contains(path, "//") || strings.Contains(path, "/.") {
		if !strings.Contains(path, "/sys/") && !strings.Contains(path, "/dev/") {
			return Target{}, false
		}
		path = t.clean(path)
	}
	if !t.claimed(path) {
		return Target{}, false
	}
	t.refresh(path)
	if target, ok := t.nodes[path]; ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		removed := unix.Access(target.RealPath, unix.F_OK) != nil // by a program
		if removed || target.Kind != RDMACM && t.gone[target.Device] {
			target.Kind, target.Link = Missing, false
		}
		return target, true
	}
	target.RealPath = t.root + path
	var st unix.Stat_t
	err := unix.Stat(target.RealPath, &st)
	target.Kind = kind(&st, err)
	if err == nil && st.Dev == t.dev {
		return target, true
	}
	// A link of the tree's leads out of it, or nowhere.
	dir, name := filepath.Split(strings.TrimRight(target.RealPath, "/"))
	if dir, err := filepath.EvalSymlinks(dir); err == nil && !t.inside(dir) {
		target.Outside = dir + "/" + name + target.RealPath[len(strings.TrimRight(target.RealPath, "/")):]
	} else if real, err := filepath.EvalSymlinks(target.RealPath); err == nil && !t.inside(real) {
		target.Outside, target.Own = real, !strings.HasSuffix(path, "/")
	}
	return target, true
}

func kind(st *unix.Stat_t, err error) Kind {
	switch {
	case err != nil:
		return Missing
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return Dir
	}
	return File
}

// inside reports whether a real path is the tree's, or leads there.
func (t *Tree) inside(real string) bool { return real == t.root || strings.HasPrefix(real, t.root+"/") }

// claimed reports whether a clean path is one of the tree's.
func (t *Tree) claimed(path string) bool {
	if path == t.exact {
		return true
	}
	for _, c := range t.claims {
		if strings.HasPrefix(path, c) || len(path) == len(c)-1 && c[len(path)] == '/' && c[:len(path)] == path {
			return true
		}
	}
	return false
}

// clean resolves what is in the way of comparing paths. Where a link comes before "..", the parent is that of the
// link's target.
func (t *Tree) clean(path string) string {
	cur := ""
	for _, c := range strings.Split(path, "/") {
		switch c {
		case "", ".":
		case "..":
			real := t.follow(cur + "/")
			if st, err := os.Stat(t.real(real)); cur != "" && (err != nil || !st.IsDir()) {
				return cur + "/" // which gives the errno
			}
			cur = filepath.Dir(real)
			if cur == "/" {
				cur = ""
			}
		default:
			cur += "/" + c
		}
	}
	if strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..") {
		cur += "/"
	}
	return cur
}

// real returns where a clean path lies.
func (t *Tree) real(path string) string {
	if t.claimed(path) {
		return t.root + path
	}
	return path
}

// follow resolves the links of a path that may be in the tree; one that is not there stays as it is.
func (t *Tree) follow(path string) string {
	real, err := filepath.EvalSymlinks(t.real(path))
	if err != nil {
		return filepath.Clean(path)
	}
	if rest, ok := strings.CutPrefix(real, t.root+"/"); ok {
		real = "/" + rest
	}
	return real
}

// refresh brings what a path leads to up to date.
func (t *Tree) refresh(path string) {
	if t.OnPorts != nil && (strings.Contains(path, "/ports/") || strings.Contains(path, "/net/")) {
		t.OnPorts()
	}
	if t.OnCounters == nil || !strings.Contains(path, "counters") {
		return
	}
	_, path, _ = strings.Cut(path, "/infiniband/")
	part := strings.Split(path, "/")
	if len(part) < 4 || part[1] != "ports" {
		return
	}
	n, _ := strconv.Atoi(part[2])
	for i := range t.config.Devices {
		if d := &t.config.Devices[i]; d.Name == part[0] && n >= 1 && n <= len(d.Ports) {
			t.OnCounters(i, n)
		}
	}
}
