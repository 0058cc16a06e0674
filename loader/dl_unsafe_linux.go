//go:build !pureverbs_native

package loader

import (
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/provider"
	"github.com/pureverbs/pureverbs/internal/secure"
)

// rtldNoLoad opens a library only if it is already loaded (dlfcn.h).
const rtldNoLoad = 4

// load searches for a library and opens it.
func load(name Name) (*Library, error) {
	list, who := override()
	if secure.Mode() {
		disarm()
	}
	p := search(name, list, who)
	if name.driver() {
		if l, err := loadMapped(name, p); l != nil || err != nil {
			return l, err
		}
	}
	e := &LibraryError{Name: name, Tried: p.bad, Only: p.only}
	for _, path := range p.paths {
		skipped, ok := usable(path)
		if !ok {
			e.Tried = append(e.Tried, skipped...)
			continue
		}
		h, err := ccall.Open(path, 0)
		if err != nil {
			e.Tried = append(append(e.Tried, Try{path, err.Error()}), skipped...)
			if e.Hint == "" {
				e.Hint = versionHint(path, err.Error())
			}
			continue
		}
		l := describe(name, h, path)
		if name.driver() {
			// The linker may have found a second copy.
			if err := soleInstance(name); err != nil {
				return nil, err
			}
		}
		return l, nil
	}
	for _, t := range e.Tried {
		// "Too many" is the C library's text, "too many" Go's.
		if strings.HasSuffix(t.Reason, "oo many open files") {
			e.Hint = "this process has no file descriptor left: close some, or raise the limit (ulimit -n, " +
				"RLIMIT_NOFILE)"
		}
	}
	if e.Hint == "" {
		release := provider.OSRelease()
		e.Install, e.command = packages(release), provider.Command(release)
	}
	if path := os.Getenv(PathEnv); path != "" && secure.Mode() {
		e.Ignored = PathEnv + "=" + path
	}
	return nil, e
}

// disarm removes the variables that the libraries must not follow from the C library's environment,
// before any library is loaded.
func disarm() {
	unsetenv, err := ccall.Libc("unsetenv")
	if err != nil {
		return
	}
	for _, key := range hazards {
		b := append([]byte(key), 0)
		// int unsetenv(const char *name);
		_ = ccall.Minus1(unsetenv, uintptr(unsafe.Pointer(&b[0])))
	}
}

// loadMapped opens the copy of a library that is already loaded. It returns nil and no error if
// there is none.
func loadMapped(name Name, p plan) (*Library, error) {
	files := mapped(name)
	if len(files) == 0 {
		return nil, nil
	}
	if len(files) > 1 {
		return nil, &InstanceError{Name: name, Loaded: files}
	}
	if p.only != "" {
		same := false
		for _, want := range p.paths {
			same = same || sameFile(want, files[0])
		}
		if !same && len(p.paths) > 0 {
			return nil, &InstanceError{Name: name, Loaded: files, Wanted: strings.Join(p.paths, " or ")}
		}
	}
	h, err := ccall.Open(files[0], rtldNoLoad)
	if err != nil {
		return nil,
			&LibraryError{Name: name,
				Tried: []Try{{files[0], "it is loaded, but the linker does not report it: " + err.Error()}}}
	}
	return describe(name, h, files[0]), nil
}

// linkMap is the public part of struct link_map (link.h).
type linkMap struct {
	addr uintptr
	name uintptr
	ld   uintptr
}

// dyn is Elf64_Dyn (elf.h).
type dyn struct{ tag, val uintptr }

const (
	rtldDILinkMap = 2
	dtStrTab      = 5
	dtSOName      = 14
)

// describe asks the dynamic linker which file it opened.
func describe(name Name, handle uintptr, found string) *Library {
	l := &Library{name: name, handle: handle, found: found, path: found}
	if dlinfo, err := ccall.Libc("dlinfo"); err == nil {
		m := new(uintptr)
		// int dlinfo(void *handle, int request, void *info);
		if err := ccall.Minus1(dlinfo, handle, rtldDILinkMap, uintptr(unsafe.Pointer(m))); err == nil && *m != 0 {
			lm := cmem.At[linkMap](*m)
			if p := cmem.String(lm.name); p != "" {
				l.path = p
			}
			l.soname = soname(lm)
		}
	}
	l.real = l.path
	if p, err := filepath.EvalSymlinks(l.path); err == nil {
		l.real = p
	}
	return l
}

// soname reads DT_SONAME of a loaded library.
func soname(m *linkMap) string {
	if m.ld == 0 {
		return ""
	}
	var strtab, off uintptr
	for p := m.ld; ; p += unsafe.Sizeof(dyn{}) {
		d := cmem.At[dyn](p)
		switch d.tag {
		case 0:
			if strtab == 0 || off == 0 {
				return ""
			}
			if strtab < m.addr { // musl does not relocate the address
				strtab += m.addr
			}
			return cmem.String(strtab + off)
		case dtStrTab:
			strtab = d.val
		case dtSOName:
			off = d.val
		}
	}
}
