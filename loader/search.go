package loader

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/secure"
	"github.com/pureverbs/pureverbs/internal/solib"
)

// PathEnv is the environment variable that lists where the libraries are: folders and library
// files, separated by colons. Programs that are setuid or setgid, or have file capabilities, ignore
// it: it would give their privileges to any caller.
const PathEnv = "PUREVERBS_LIBRARY_PATH"

var setPath struct {
	sync.Mutex
	list   string
	opened bool
}

// SetPath sets where the libraries are, in the form of PUREVERBS_LIBRARY_PATH, which it overrides.
// An empty list selects the system's search, regardless of the environment. SetPath must be called before the first
// library is opened.
func SetPath(list string) error {
	setPath.Lock()
	defer setPath.Unlock()
	if setPath.opened {
		return fmt.Errorf("set library path %q: a library is already open; call SetPath before the first Open", list)
	}
	if list == "" {
		list = string(filepath.ListSeparator)
	}
	setPath.list = list
	return nil
}

// override returns the user's list of places and where it was set.
func override() (list, who string) {
	setPath.Lock()
	defer setPath.Unlock()
	if setPath.list != "" {
		return setPath.list, "SetPath(" + setPath.list + ")"
	}
	list = secure.Getenv(PathEnv)
	return list, PathEnv + "=" + list
}

// ignored lists the environment variables that this program must not follow, as "NAME=value".
func ignored() []string {
	if !secure.Mode() {
		return nil
	}
	var vars []string
	for _, key := range append([]string{PathEnv, level.ControlEnv}, hazards...) {
		if v := os.Getenv(key); v != "" {
			vars = append(vars, key+"="+v)
		}
	}
	return vars
}

// hazards are the variables that make the libraries load code from anywhere, or read and write any
// file. The libraries check the user ID at most, never capabilities.
var hazards = []string{"RDMAV_DRIVERS", "IBV_DRIVERS", "SYSFS_PATH", "VERBS_LOG_FILE", "MLX5_DEBUG_FILE"}

// plan is where to look for a library.
type plan struct {
	paths []string // in order; the dynamic linker finds one without a slash
	bad   []Try    // invalid entries of the user's list
	only  string   // where the user's list was set, if nothing else may be tried
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
			p.bad = append(p.bad, Try{abs, "not named after libibverbs, librdmacm, libmlx5 or libefa"})
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

// wellKnown lists folders of OFED, DOCA and manual installations that the dynamic linker may not
// search.
func wellKnown() []string {
	dirs := []string{"/usr/lib64", "/usr/local/lib64", "/usr/local/lib", "/opt/mellanox/rdma-core/lib64",
		"/opt/mellanox/doca/lib64",
		"/opt/rdma-core/lib", "/run/current-system/sw/lib"}
	if triplet := solib.Triplet(); triplet != "" {
		dirs = append([]string{"/usr/lib/" + triplet, "/usr/local/lib/" + triplet, "/opt/mellanox/doca/lib/" + triplet},
			dirs...)
	}
	return dirs
}
