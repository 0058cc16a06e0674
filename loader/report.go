package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/secure"
)

// Info is what [Report] found. Its text and its JSON are for bug reports.
type Info struct {
	Host     string `json:"host"`     // Go release, system, kernel
	HotPath  string `json:"hot_path"` // how C is called on the data path, and why so
	Override string `json:"override,omitempty"`
	// Ignored lists environment variables that this program does not follow, because
	// it is setuid, setgid or has file capabilities.
	Ignored   []string      `json:"ignored_environment,omitempty"`
	Libraries []LibraryInfo `json:"libraries"`
	// ContextSize is the size in bytes of struct verbs_context, 0 before the first
	// device was opened, and Level the rdma-core releases that it is of.
	ContextSize int    `json:"verbs_context_bytes,omitempty"`
	Level       string `json:"verbs_context_level,omitempty"`
	// OFED lists signs of MLNX_OFED or DOCA-OFED on this host.
	OFED []string `json:"ofed,omitempty"`
}

// LibraryInfo is a library in [Info].
type LibraryInfo struct {
	Name     Name   `json:"name"`
	Error    string `json:"error,omitempty"` // why it could not be opened; the rest is empty then
	Found    string `json:"found,omitempty"` // how it was found: by soname, or by path
	Path     string `json:"path,omitempty"`  // the file, without symbolic links
	SOName   string `json:"soname,omitempty"`
	ABILevel string `json:"abi_level,omitempty"` // as the file's name has it, "14"
	Version  string `json:"version,omitempty"`   // of the package, as the file's name has it, "44.0"
	// Missing lists functions that this program asked for in vain.
	Missing []string `json:"missing,omitempty"`
	// Lacks lists functions of newer releases that the library has not, by release.
	Lacks []Lack `json:"lacks,omitempty"`
}

// Lack is what a library lacks of a release of rdma-core.
type Lack struct {
	Since   string   `json:"since"`
	Symbols []string `json:"symbols"`
}

// Report tells which libraries are in use, and what they lack. It opens libibverbs
// and librdmacm if that was not done, and libmlx5 if it is loaded.
func Report() *Info {
	way, why := ccall.HotPath()
	r := &Info{
		Host:    strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, kernel())),
		HotPath: fmt.Sprintf("%s (%s)", way, why),
	}
	if list, who := override(); list != "" {
		r.Override = who
	}
	r.Ignored = ignored()
	var paths []string
	for _, name := range Names() {
		if name == MLX5 && !isOpen(name) && len(mapped(name)) == 0 {
			continue
		}
		l, err := Open(name)
		if err != nil {
			r.Libraries = append(r.Libraries, LibraryInfo{Name: name, Error: err.Error()})
			continue
		}
		info := l.info()
		paths = append(paths, info.Path)
		r.Libraries = append(r.Libraries, info)
	}
	r.ContextSize, r.Level = currentLevel()
	r.OFED = ofed("/", paths)
	return r
}

func isOpen(name Name) bool {
	opened.Lock()
	defer opened.Unlock()
	return opened.libs[name] != nil
}

func (l *Library) info() LibraryInfo {
	level, version := l.name.version(filepath.Base(l.real))
	info := LibraryInfo{Name: l.name, Found: l.found, Path: l.real, SOName: l.soname, ABILevel: level, Version: version, Missing: l.asked()}
	for _, o := range optional[l.name] {
		var lack []string
		for s := range strings.FieldsSeq(o.symbols) {
			if _, ok := l.lookup(s); !ok {
				lack = append(lack, s)
			}
		}
		if len(lack) > 0 {
			info.Lacks = append(info.Lacks, Lack{o.since, lack})
		}
	}
	return info
}

// ofed returns signs of MLNX_OFED or DOCA-OFED below root and in the paths of the
// libraries.
func ofed(root string, paths []string) []string {
	var signs []string
	for _, p := range paths {
		if strings.HasPrefix(p, "/opt/mellanox/") || strings.Contains(filepath.Base(p), "mlnx") {
			signs = append(signs, p)
		}
	}
	for _, f := range []string{"usr/bin/ofed_info", "etc/mlnx-release", "sys/module/mlx_compat"} {
		if _, err := os.Stat(filepath.Join(root, f)); err == nil {
			signs = append(signs, filepath.Join(root, f))
		}
	}
	if _, span := currentLevel(); strings.HasPrefix(span, "MLNX_OFED") {
		signs = append(signs, "struct verbs_context of "+span)
	}
	return slices.Compact(signs)
}

func kernel() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if errors.Is(err, os.ErrNotExist) || len(b) == 0 {
		return ""
	}
	return "kernel " + strings.TrimSpace(string(b))
}

// String is several lines of text.
func (r *Info) String() string {
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("host", "%s", r.Host)
	line("calls", "%s", r.HotPath)
	if r.Override != "" {
		line("override", "%s", r.Override)
	}
	if len(r.Ignored) > 0 {
		line("ignored", "%s: %s", strings.Join(r.Ignored, " "), secure.Why)
	}
	for _, l := range r.Libraries {
		if l.Error != "" {
			line(l.Name.stem(), "%s", l.Error)
			continue
		}
		version := "of unknown version"
		if l.Version != "" {
			version = "version " + l.Version
		}
		line(l.Name.stem(), "%s, %s, soname %s, found as %s", l.Path, version, l.SOName, l.Found)
		if len(l.Missing) > 0 {
			line("  asked for", "%s: missing", strings.Join(l.Missing, " "))
		}
		for _, lack := range l.Lacks {
			line("  lacks "+lack.Since, "%s", strings.Join(lack.Symbols, " "))
		}
	}
	if r.ContextSize != 0 {
		line("verbs_context", "%d bytes: rdma-core %s", r.ContextSize, r.Level)
	}
	if len(r.OFED) > 0 {
		line("ofed", "signs of MLNX_OFED or DOCA: %s", strings.Join(r.OFED, ", "))
	}
	return b.String()
}
