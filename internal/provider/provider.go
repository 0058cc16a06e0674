// Package provider finds out which driver libraries (providers) a libibverbs loads, where it looks
// for them and why it does not list a device. libibverbs itself does not report this: a device
// without a provider is just missing from its list. This package only reads files; it loads
// nothing.
//
// A provider fits only a libibverbs with the same provider ABI, a number in the provider's file
// name and symbol versions: libmlx5-rdmav34.so.
package provider

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/secure"
	"github.com/pureverbs/pureverbs/internal/solib"
)

// PrivateNode is the prefix of the symbol version that providers need from libibverbs. The provider
// ABI follows it.
const PrivateNode = "IBVERBS_PRIVATE_"

// File is a provider, or a name without a file.
type File struct {
	Name    string // "mlx5", as libibverbs' configuration names it
	Path    string // "" if there is no file
	ABI     string // "34", from the file name
	Loaded  bool
	Problem string // why libibverbs does not load it, "" if unknown
}

// Set describes the providers of a libibverbs.
type Set struct {
	Library string // its file, without symbolic links
	ABI     string // provider ABI, "34"; "" if unknown
	Dir     string // where it looks first, "" if only in the dynamic linker's folders
	Config  string // the folder of files that name providers, "" if unknown
	Files   []File // ordered by name
}

// Scan examines the providers of the libibverbs in the file library, and finds out which of them
// this process has loaded.
func Scan(library string) *Set {
	library = realPath(library)
	s := &Set{Library: library}
	s.ABI, s.Dir, s.Config = inspect(library)
	if s.ABI == "" {
		return s
	}
	maps, _ := solib.ReadFile("/proc/self/maps")
	loaded := loadedFiles(string(maps))
	seen := make(map[string]bool)
	add := func(f File) {
		if f.Path != "" {
			real := realPath(f.Path)
			if seen[f.Name+"\x00"+real] {
				return
			}
			seen[f.Name+"\x00"+real] = true
			f.Loaded = loaded[real]
			if f.Problem == "" {
				f.Problem = s.unfit(f)
			}
			if f.Loaded {
				f.Problem = ""
			}
		}
		s.Files = append(s.Files, f)
	}

	names := s.configured()
	missing := make(map[string]string)
	for _, name := range names {
		path, where := s.search(name)
		if path == "" {
			missing[shortName(name)] = where
			continue
		}
		add(File{Name: shortName(name), Path: path, ABI: s.ABI})
	}
	// Files that are there but not loaded.
	beside := filepath.Dir(library)
	for _, f := range append(glob(s.Dir), glob(beside)...) {
		switch listed := slices.Contains(names, f.Name); {
		case f.ABI != s.ABI:
		case filepath.Dir(f.Path) != s.Dir:
			f.Problem = "is beside libibverbs, which looks elsewhere (" + s.places() + "): set RDMAV_DRIVERS=" +
				filepath.Join(beside, "lib"+f.Name)
		case listed:
		case slices.Contains(names, f.Name+"\r"):
			f.Problem = "a file in " + s.Config + " names it with a line end of Windows, which libibverbs takes " +
				"for a part of the name: sed -i 's/\\r$//' " + s.Config + "/*.driver"
		default:
			f.Problem = "no file in " + s.Config + " names it: write the line \"driver " + f.Name +
				"\" into one, or set RDMAV_DRIVERS=" + f.Name
		}
		add(f)
	}
	for _, f := range s.Files {
		delete(missing, f.Name) // the file's problem is more helpful
	}
	for name, where := range missing {
		add(File{Name: name, Problem: "has no file " + where})
	}
	slices.SortStableFunc(s.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// places describes where libibverbs looks for providers.
func (s *Set) places() string {
	if s.Dir == "" {
		return "where the dynamic linker does"
	}
	return s.Dir
}

// unfit returns why libibverbs cannot load a file, "" if no reason is found.
func (s *Set) unfit(f File) string {
	if err := solib.Check(f.Path); err != nil {
		var fe *solib.FileError
		if errors.As(err, &fe) {
			return fe.Problem
		}
		return err.Error()
	}
	abi := f.ABI
	if abi == s.ABI {
		// The name may be wrong.
		if needs := needed(f.Path); needs != "" {
			abi = needs
		}
	}
	if abi != s.ABI {
		return fmt.Sprintf("is of %s, and this libibverbs takes %s: use both from the same package", Release(abi),
			Release(s.ABI))
	}
	return ""
}

// configured lists the providers that libibverbs loads, by the names that its
// configuration has for them: "mlx5", or the beginning of a path.
func (s *Set) configured() []string {
	var names []string
	// libibverbs checks user IDs only; the loader removes the variables in all programs with more
	// privileges than their callers.
	env := secure.Getenv("RDMAV_DRIVERS")
	if env == "" {
		env = secure.Getenv("IBV_DRIVERS")
	}
	names = append(names, strings.FieldsFunc(env, func(r rune) bool { return r == ':' || r == ';' })...)
	files, _ := os.ReadDir(s.Config) // a missing folder names none
	for _, f := range files {
		path := filepath.Join(s.Config, f.Name())
		if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
			continue
		}
		for line := range strings.Lines(read(path)) {
			// As libibverbs, for which the CR of a line end is a part of the name.
			w := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("\n\t ", r) })
			if len(w) > 1 && w[0] == "driver" {
				names = append(names, w[1])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// search returns the file that libibverbs finds for a configured name, or where it looked.
func (s *Set) search(name string) (path, where string) {
	suffix := "-rdmav" + s.ABI + ".so"
	if strings.HasPrefix(name, "/") {
		if exists(name + suffix) {
			return name + suffix, ""
		}
		return "", name + suffix
	}
	file := "lib" + name + suffix
	if p := filepath.Join(s.Dir, file); s.Dir != "" && exists(p) {
		return p, ""
	}
	cache, _ := solib.ReadFile("/etc/ld.so.cache")
	if found := solib.Candidates(file, secure.Getenv("LD_LIBRARY_PATH"), cache); len(found) > 0 {
		return found[0], ""
	}
	if s.Dir == "" {
		return "", file
	}
	return "", file + " in " + s.Dir
}

// Fatal returns the providers that would end this process if libibverbs loaded
// them, which it does when it first finds a device.
func (s *Set) Fatal() error {
	var errs []error
	for _, name := range s.configured() {
		path, _ := s.search(name)
		var fe *solib.FileError
		if err := solib.Check(path); path != "" && errors.As(err, &fe) && fe.Fatal {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// inspect reads from the file of a libibverbs its provider ABI, and the folders of providers and
// configuration that it was built with.
func inspect(library string) (abi, dir, config string) {
	b := []byte(read(library))
	for s := range stringsWith(b, "lib%s-rdmav") {
		pattern, tail, _ := strings.Cut(s, "lib%s-rdmav")
		if n, ok := strings.CutSuffix(tail, ".so"); ok && isNumber(n) {
			abi = n
			if filepath.IsAbs(pattern) {
				dir = filepath.Clean(pattern)
			}
		}
	}
	for s := range stringsWith(b, "libibverbs.d\x00") {
		if filepath.IsAbs(s) {
			config = filepath.Clean(s)
		}
	}
	if abi == "" {
		abi = needed(library)
	}
	return abi, dir, config
}

// needed returns the provider ABI that a file names among its symbol versions.
func needed(path string) string {
	b := read(path)
	for {
		_, rest, ok := strings.Cut(b, "\x00"+PrivateNode)
		if !ok {
			return ""
		}
		if n, _, ok := strings.Cut(rest[:min(len(rest), 8)], "\x00"); ok && isNumber(n) {
			return n
		}
		b = rest
	}
}

// stringsWith yields the C strings in b that contain part.
func stringsWith(b []byte, part string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], []byte(part))
			if at += i; i < 0 || !yield(around(b, at)) {
				return
			}
		}
	}
}

// around returns the C string in b that contains the index i. It starts at a printable byte, since
// the bytes before need not be text.
func around(b []byte, i int) string {
	start := bytes.LastIndexFunc(b[:i], func(r rune) bool { return r < ' ' || r > '~' }) + 1
	end := bytes.IndexByte(b[i:], 0)
	if end < 0 || i+end-start > 4096 {
		return ""
	}
	return string(b[start : i+end])
}

// read returns the contents of a regular file, "" if it cannot be read.
func read(path string) string {
	b, err := solib.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// glob lists the providers in a folder.
func glob(dir string) (files []File) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if name, abi := split(e.Name()); name != "" {
			files = append(files, File{Name: name, Path: filepath.Join(dir, e.Name()), ABI: abi})
		}
	}
	return files
}

// split splits libmlx5-rdmav34.so into "mlx5" and "34"; name is "" for other files.
func split(path string) (name, abi string) {
	s, ok1 := strings.CutPrefix(filepath.Base(path), "lib")
	s, ok2 := strings.CutSuffix(s, ".so")
	name, abi, ok3 := strings.Cut(s, "-rdmav")
	if !ok1 || !ok2 || !ok3 || !isNumber(abi) {
		return "", ""
	}
	return name, abi
}

// shortName returns a configured name without its path.
func shortName(name string) string {
	if !strings.HasPrefix(name, "/") {
		return name
	}
	return strings.TrimPrefix(filepath.Base(name), "lib")
}

func isNumber(s string) bool {
	return s != "" && len(s) < 6 && strings.Trim(s, "0123456789") == ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func realPath(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// loadedFiles returns the files in maps, the text of /proc/self/maps.
func loadedFiles(maps string) map[string]bool {
	files := make(map[string]bool)
	for line := range strings.Lines(maps) {
		if i := strings.IndexByte(line, '/'); i >= 0 {
			files[strings.TrimRight(line[i:], "\n")] = true
		}
	}
	return files
}

// releases maps provider ABIs to rdma-core releases.
var releases = map[string]string{
	"15": "v15", "16": "v16", "17": "v17", "18": "v18", "19": "v19", "20": "v20", "21": "v21", "22": "v22 to v24",
	"25": "v25 to v32",
	"33": "v33", "34": "v34 to v56", "57": "v57 to v58", "59": "v59 to v63", "64": "v64", "65": "v65",
}

// Release returns a description of a provider ABI: "rdma-core v34 to v56 (provider ABI 34)".
func Release(abi string) string {
	switch r := releases[abi]; {
	case r != "":
		return fmt.Sprintf("rdma-core %s (provider ABI %s)", r, abi)
	case abi == "2":
		return "a release before rdma-core, or MLNX_OFED before 5.0 (provider ABI 2)"
	default:
		return "provider ABI " + abi
	}
}
