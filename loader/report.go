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
	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/printable"
	"github.com/pureverbs/pureverbs/internal/provider"
	"github.com/pureverbs/pureverbs/internal/secure"
	"github.com/pureverbs/pureverbs/internal/solib"
)

// Info is the result of [Report]. Its text and its JSON are for bug reports.
type Info struct {
	Host     string `json:"host"`     // Go release, system, kernel
	HotPath  string `json:"hot_path"` // how C is called on the data path, and why
	Override string `json:"override,omitempty"`
	// Ignored lists environment variables that this program does not follow, because
	// it is setuid, setgid or has file capabilities.
	Ignored   []string      `json:"ignored_environment,omitempty"`
	Libraries []LibraryInfo `json:"libraries"`
	// Control is the control path that package ibv has chosen, and why: "native: PUREVERBS_CONTROL=native". It is empty
	// before the first device was listed or opened.
	Control string `json:"control,omitempty"`
	// Providers are the drivers that libibverbs loads, and those that it does not.
	Providers []Provider `json:"providers,omitempty"`
	// ContextSize is the size of struct verbs_context in bytes, 0 before the first device was
	// opened. Level names the rdma-core releases with that size.
	ContextSize int    `json:"verbs_context_bytes,omitempty"`
	Level       string `json:"verbs_context_level,omitempty"`
	// OFED lists signs of MLNX_OFED or DOCA-OFED on this host.
	OFED []string `json:"ofed,omitempty"`
	// Install is the command that installs libibverbs and its drivers, if the distribution is known.
	Install string `json:"install,omitempty"`
}

// LibraryInfo is a library in [Info].
type LibraryInfo struct {
	Name     Name   `json:"name"`
	Error    string `json:"error,omitempty"` // why it could not be opened; only Remedy is set then
	Remedy   string `json:"remedy,omitempty"`
	Found    string `json:"found,omitempty"` // the soname or path that it was found by
	Path     string `json:"path,omitempty"`  // the file, without symbolic links
	SOName   string `json:"soname,omitempty"`
	ABILevel string `json:"abi_level,omitempty"` // from the file name, "14"
	Version  string `json:"version,omitempty"`   // of the package, from the file name, "44.0"
	// ProviderABI is the ABI that libibverbs' drivers must have, "34". ProviderDir is where it
	// looks for them first. ProviderConfig is the folder of files that name them. All three were
	// fixed when the library was built.
	ProviderABI    string `json:"provider_abi,omitempty"`
	ProviderDir    string `json:"provider_dir,omitempty"`
	ProviderConfig string `json:"provider_config,omitempty"`
	// Missing lists functions that this program asked for and the library lacks.
	Missing []string `json:"missing,omitempty"`
	// Lacks lists functions of newer releases that the library lacks, by release.
	Lacks []Lack `json:"lacks,omitempty"`
}

// Provider is a driver library of libibverbs. libibverbs loads those that its configuration names
// when it first finds a device.
type Provider struct {
	Name    string `json:"name"`              // "mlx5"
	Path    string `json:"path,omitempty"`    // empty if the file is missing
	ABI     string `json:"abi,omitempty"`     // provider ABI, "34"; it must equal libibverbs'
	Loaded  bool   `json:"loaded"`            // in this process
	Problem string `json:"problem,omitempty"` // why libibverbs does not load it, if known
}

// Lack lists the functions of one rdma-core release that a library lacks.
type Lack struct {
	Since   string   `json:"since"`
	Symbols []string `json:"symbols"`
}

// Report returns which libraries are in use and what they lack. It opens libibverbs and librdmacm
// if they are not open yet, and libmlx5 and libefa if they are loaded.
func Report() *Info {
	way, why := ccall.HotPath()
	r := &Info{
		Host: strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", runtime.Version(), runtime.GOOS,
			runtime.GOARCH, kernel())),
		HotPath: fmt.Sprintf("%s (%s)", way, why),
	}
	if list, who := override(); list != "" {
		r.Override = who
	}
	r.Ignored = ignored()
	r.Install = provider.Command(provider.OSRelease())
	var paths []string
	for _, name := range Names() {
		if name.driver() && !isOpen(name) && len(mapped(name)) == 0 {
			continue
		}
		l, err := Open(name)
		if err != nil {
			r.Libraries = append(r.Libraries, LibraryInfo{Name: name, Error: err.Error(), Remedy: remedy(err)})
			continue
		}
		info := l.info()
		if name == IBVerbs {
			set := provider.Scan(l.real)
			info.ProviderABI, info.ProviderDir, info.ProviderConfig = set.ABI, set.Dir, set.Config
			for _, f := range set.Files {
				r.Providers = append(r.Providers, Provider(f))
			}
		}
		paths = append(paths, info.Path)
		r.Libraries = append(r.Libraries, info)
	}
	r.ContextSize, r.Level = level.Noted()
	r.Control = level.Control()
	r.OFED = ofed("/", paths)
	return r
}

// remedy returns the way out of an error of Open.
func remedy(err error) string {
	var e *LibraryError
	if !errors.As(err, &e) {
		return ""
	}
	return e.remedy(provider.Command(provider.OSRelease()))
}

func isOpen(name Name) bool {
	opened.Lock()
	defer opened.Unlock()
	return opened.libs[name] != nil
}

func (l *Library) info() LibraryInfo {
	level, version := l.name.version(filepath.Base(l.real))
	info := LibraryInfo{Name: l.name, Found: l.found, Path: l.real, SOName: l.soname, ABILevel: level, Version: version,
		Missing: l.asked()}
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
	if _, span := level.Noted(); strings.HasPrefix(span, "MLNX_OFED") {
		signs = append(signs, "struct verbs_context of "+span)
	}
	return slices.Compact(signs)
}

func kernel() string {
	b, err := solib.ReadFile("/proc/sys/kernel/osrelease")
	if errors.Is(err, os.ErrNotExist) || len(b) == 0 {
		return ""
	}
	return "kernel " + strings.TrimSpace(string(b))
}

// providers writes where libibverbs finds its drivers: the usable ones on one line, the others with
// their problems.
func (r *Info) providers(line func(key, format string, args ...any), l *LibraryInfo) {
	var loaded, good []string
	for _, p := range r.Providers {
		switch {
		case p.Loaded:
			loaded = append(loaded, p.Name)
		case p.Problem == "":
			good = append(good, p.Name)
		}
	}
	line("  providers", "%s, in %s, named in %s", provider.Release(l.ProviderABI), orUnknown(l.ProviderDir),
		orUnknown(l.ProviderConfig))
	if len(loaded) > 0 {
		line("    loaded", "%s", strings.Join(loaded, " "))
	}
	if len(good) > 0 {
		line("    there", "%s", strings.Join(good, " "))
	}
	// A libibverbs of another installation rejects all of them for one reason.
	type group struct{ dir, problem string }
	names := make(map[group][]string)
	var order []group
	for _, p := range r.Providers {
		if p.Problem == "" {
			continue
		}
		g := group{problem: p.Problem}
		if p.Path != "" {
			g.dir = "in " + filepath.Dir(p.Path) + " "
		}
		if names[g] == nil {
			order = append(order, g)
		}
		names[g] = append(names[g], p.Name)
	}
	for _, g := range order {
		line("    not taken", "%s %s%s", strings.Join(names[g], " "), g.dir, g.problem)
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown place"
	}
	return s
}

// String returns the report as several lines of text.
func (r *Info) String() string {
	var b strings.Builder
	line := func(key, format string, args ...any) {
		// Paths and names may contain anything.
		fmt.Fprintf(&b, "%-14s %s\n", key, printable.Message(fmt.Sprintf(format, args...)))
	}
	line("host", "%s", r.Host)
	line("calls", "%s", r.HotPath)
	if r.Override != "" {
		line("override", "%s", r.Override)
	}
	if len(r.Ignored) > 0 {
		line("ignored", "%s: %s", strings.Join(r.Ignored, " "), secure.Why)
	}
	if r.Control != "" {
		line("control", "%s", r.Control)
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
		if l.ProviderABI != "" {
			r.providers(line, &l)
		}
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
