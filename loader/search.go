package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// PathEnv names the environment variable that says where the libraries are:
// folders and library files, separated by colons.
const PathEnv = "PUREVERBS_LIBRARY_PATH"

var setPath struct {
	sync.Mutex
	list   string
	opened bool
}

// SetPath says where the libraries are, as PUREVERBS_LIBRARY_PATH does, which it
// overrides. An empty list means the system's search whatever the environment
// says. It must be called before the first library is opened.
func SetPath(list string) error {
	setPath.Lock()
	defer setPath.Unlock()
	if setPath.opened {
		return fmt.Errorf("set library path %q: a library is open already, do it before the first call of Open", list)
	}
	if list == "" {
		list = string(filepath.ListSeparator)
	}
	setPath.list = list
	return nil
}

// override returns the list of places that the user gave, and who gave it.
func override() (list, who string) {
	setPath.Lock()
	defer setPath.Unlock()
	if setPath.list != "" {
		return setPath.list, "SetPath(" + setPath.list + ")"
	}
	list = os.Getenv(PathEnv)
	return list, PathEnv + "=" + list
}

// plan is where to look for a library.
type plan struct {
	paths []string // in order; one without a slash is for the dynamic linker to find
	bad   []Try    // entries of the user's list that make no sense
	only  string   // set if the user's list is all there is: who gave it
}

// search plans the search for a library.
func search(name Name, list, who string) plan {
	var p plan
	for _, entry := range filepath.SplitList(list) {
		if entry == "" {
			continue
		}
		abs, err := filepath.Abs(entry)
		if err != nil {
			p.bad = append(p.bad, Try{entry, err.Error()})
			continue
		}
		base := filepath.Base(abs)
		st, err := os.Stat(abs)
		isFile := err == nil && !st.IsDir() || err != nil && strings.Contains(base, ".so")
		switch {
		case !isFile:
			p.paths = append(p.paths, filepath.Join(abs, string(name)))
		case name.of(base):
			p.paths = append(p.paths, abs)
		case !known(base):
			p.bad = append(p.bad, Try{abs, "a file that is not named after libibverbs, librdmacm or libmlx5"})
		}
	}
	if len(p.paths)+len(p.bad) > 0 {
		p.only = who
		return p
	}
	p.paths = append(p.paths, string(name))
	for _, d := range wellKnown() {
		p.paths = append(p.paths, filepath.Join(d, string(name)))
	}
	return p
}

func known(base string) bool {
	for _, n := range Names() {
		if n.of(base) {
			return true
		}
	}
	return false
}

// wellKnown lists folders of OFED, DOCA and hand-made installations, which the
// dynamic linker may not know.
func wellKnown() []string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	dirs := []string{"/usr/lib64", "/usr/local/lib64", "/usr/local/lib", "/opt/mellanox/rdma-core/lib64", "/opt/mellanox/doca/lib64",
		"/opt/rdma-core/lib", "/run/current-system/sw/lib"}
	if triplet != "" {
		dirs = append([]string{"/usr/lib/" + triplet, "/usr/local/lib/" + triplet, "/opt/mellanox/doca/lib/" + triplet}, dirs...)
	}
	return dirs
}

// absent returns why a planned path cannot be tried, "" if it can.
func absent(path string) string {
	if !strings.Contains(path, "/") {
		return ""
	}
	_, err := os.Stat(path)
	var pe *fs.PathError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return noFile
	case errors.As(err, &pe):
		return pe.Err.Error()
	}
	return err.Error()
}
